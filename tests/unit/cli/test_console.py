"""Progress: on a terminal only."""

from __future__ import annotations

import pytest

from caffe2_cli.output.console import stages


def show_two(capsys: pytest.CaptureFixture[str]) -> str:
    with stages() as show:
        show("loading")
        show("comparing")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_stages_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = show_two(capsys)
    assert "loading" in text
    assert "comparing" in text


def test_no_stages_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert show_two(capsys) == ""
