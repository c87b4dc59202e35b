"""Warnings and notes of conversions that succeed reach the user of every function and command."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conformance.recording import operator
from support.cells import feed, fills, rnn

from caffe2_backend import Predictor, validate
from caffe2_bridge import Model, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.commands import main
from caffe2_frontend import check, to_onnx

X = np.array([[1.0, -2.0]], np.float32)


def mobile(name: str) -> Model:
    """Return a net whose init net fills its input with a sample, as Caffe2's mobile exporter writes them."""
    net = NetDef(name=name, op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    return Model.of(net, fills({"x": X}))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_an_export_logs_its_warnings_each_time(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        to_onnx(mobile("exported"))
    (finding,) = check(mobile("exported")).findings
    assert warnings(caplog) == [str(finding)] * 2
    assert str(finding).startswith("exported: warning: the init net also fills input 'x'")


def test_the_runtime_logs_its_notes_once(caplog: pytest.LogCaptureFixture) -> None:
    cell = rnn("Elu")  # is not an activation of Caffe2's RNN cells: a Scan, and a note that says so
    net = cell.net()
    net.name = "served"
    with caplog.at_level(logging.INFO, "caffe2_bridge"):
        for _ in range(2):
            Predictor(Model.of(net, cell.init())).run(feed(cell, 3, 2))
    notes = [message for message in caplog.messages if "[note]" in message]
    assert len(notes) == 1
    assert notes[0].startswith("served[")


def test_a_validation_reports_its_warnings_in_its_notes(caplog: pytest.LogCaptureFixture) -> None:
    report = validate(mobile("validated"), runtimes=("onnxruntime-cpu", "onnx-reference"), lockstep=False)
    assert warnings(caplog) == []
    assert [note for note in report.notes if note.startswith("validated: warning: ") and "[placeholder]" in note]


def test_the_command_line_prints_warnings_to_stderr(tmp_path: Path) -> None:
    folder, target = tmp_path / "model", tmp_path / "out.onnx"
    save(mobile("printed"), folder)
    result = CliRunner().invoke(main, ["export", str(folder), "-o", str(target)])
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("printed: warning: the init net also fills input 'x'")
    assert "[placeholder]" in line
    described = CliRunner().invoke(main, ["export", str(folder), "--input", "x=float32[N,2]", "-o", str(target)])
    assert (described.exit_code, described.stderr) == (0, "")
    assert logging.getLogger("caffe2_bridge").handlers == []
