"""Progress: on a terminal only, by one console."""

from __future__ import annotations

import re
import sys

import pytest

from caffe2_cli.output import console
from caffe2_cli.output.console import progress, results_shown, stages
from caffe2_cli.output.echo import message


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


def test_messages_stand_above_a_spinner(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("exporting"):
        message("note", "[N]: x\x1b[2J" + "y" * 300, "net: ")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "net: note: [N]: x\\x1b[2J" + "y" * 300 + "\n" in text
    assert "exporting" in text
    assert not re.search(r"exporting *net:", text)


def show_results(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    with results_shown() as show:
        show("a\x1b[2J: agree", 1, 2, "1 agree")
        print("a note", file=sys.stderr)  # noqa: T201 - as a library does
        show("b: [red]x[/red] " + "y" * 300, 2, 2, "1 agree, 1 disagree")
    captured = capsys.readouterr()
    return captured.out, captured.err


LINES = ["a\\x1b[2J: agree", "b: [red]x[/red] " + "y" * 300]


def test_results_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    out, err = show_results(capsys)
    assert out.splitlines() == LINES
    assert err == "a note\n"


def test_results_in_a_pipe_with_a_bar_on_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out, err = show_results(capsys)
    assert out.splitlines() == LINES
    assert "2/2" in err
    assert "1 agree, 1 disagree" in err
    assert "agree" not in [line.strip() for line in err.splitlines()]


def test_results_above_the_bar_of_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(console.os, "isatty", lambda _: True)
    out, err = show_results(capsys)
    assert out == ""
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\r", err).replace("\n", "\r").split("\r")
    assert [line for line in shown if line in {*LINES, "a note"}] == [LINES[0], "a note", LINES[1]]
