from __future__ import annotations

import logging

import pytest

from caffe2_bridge.diagnostics import Diagnostic, Severity
from caffe2_bridge.diagnostics.log import log_diagnostics, log_new_diagnostics, muted

NOTE = Diagnostic("note", "a Scan was chosen", severity=Severity.NOTE)
WARNING = Diagnostic("placeholder", "a sample is ignored", severity=Severity.WARNING)
ERROR = Diagnostic("opset", "the opset is too old")


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, object]]:
    return [(record.name, record.levelno, getattr(record, "diagnostic", None)) for record in caplog.records]


def test_warnings_and_notes_are_logged_and_errors_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "caffe2_bridge"):
        log_diagnostics([NOTE, ERROR, WARNING])
    assert logged(caplog) == [
        ("caffe2_bridge", logging.INFO, NOTE),
        ("caffe2_bridge", logging.WARNING, WARNING),
    ]
    assert caplog.messages == [str(NOTE), str(WARNING)]


def test_notes_are_dropped_unless_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        log_diagnostics([NOTE, WARNING])
    assert caplog.messages == [str(WARNING)]


def test_repeated_conversions_log_a_diagnostic_once(caplog: pytest.LogCaptureFixture) -> None:
    fresh = Diagnostic("placeholder", "a sample that only this test knows", severity=Severity.WARNING)
    with muted():
        log_new_diagnostics([fresh])
    for _ in range(3):
        log_new_diagnostics([fresh])
    assert caplog.messages == [str(fresh)]


def test_muted_code_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with muted():
        log_diagnostics([WARNING])
    assert caplog.messages == []
    log_diagnostics([WARNING])
    assert caplog.messages == [str(WARNING)]
