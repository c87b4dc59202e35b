"""Tables on stdout: names are never cut."""

from __future__ import annotations

import click
import pytest
from rich.table import Table

from caffe2_cli.output.tables import print_line, print_table

LONG = "gpu_0/" + "very_long_scope/" * 12 + "blob"


def table() -> Table:
    made = Table("runtime", "output", title=f"{LONG}: agree", title_justify="left")
    made.add_row("onnxruntime-cpu", LONG)
    return made


def test_a_pipe_gets_every_row_in_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    print_table(table())
    print_line(LONG)
    title, *rows, line = capsys.readouterr().out.splitlines()
    assert title == f"{LONG}: agree"
    assert any(LONG in row and "onnxruntime-cpu" in row for row in rows)
    assert line == LONG


def test_a_terminal_continues_long_names_on_the_next_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "60")):
        monkeypatch.setenv(name, value)
    print_table(table())
    title, header, *rows = click.unstyle(capsys.readouterr().out).splitlines()
    assert (title, header.split()) == (f"{LONG}: agree", ["runtime", "output"])
    assert len(rows) > 1
    assert "…" not in "".join(rows)
    assert max(map(len, rows)) <= 60
    start = header.index("output")
    assert "".join(row[start:].strip() for row in rows) == LONG
    assert rows[0].startswith("onnxruntime-cpu  ")


def test_columns_of_numbers_are_not_folded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "60")):
        monkeypatch.setenv(name, value)
    made = Table("runtime", "case", "output", "max abs", "max rel", "ulp", "")
    made.add_row("onnx-reference", "T=17 N=2", "LSTM/hidden_state_last", "1.1e-06", "2.1e-01", "52", "agrees")
    print_table(made)
    text = click.unstyle(capsys.readouterr().out)
    assert all(cell in text for cell in ("T=17 N=2", "1.1e-06", "2.1e-01", "52", "agrees"))


def test_columns_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    made = Table("", "blobs", title="a model")
    made.add_row("inputs", "x\ny")
    made.add_row("outputs", "[bold]z[/bold]")
    print_table(made)
    assert capsys.readouterr().out == "a model\n         blobs\ninputs   x, y\noutputs  [bold]z[/bold]\n"
