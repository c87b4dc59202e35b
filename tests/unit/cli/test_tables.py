"""Tables on stdout: names are never cut."""

from __future__ import annotations

import pytest
from rich.table import Table

from caffe2_cli.output.tables import print_line, print_table

LONG = "gpu_0/" + "very_long_scope/" * 12 + "blob"


def table() -> Table:
    made = Table("runtime", "output", title=f"{LONG}: agree", title_justify="left")
    made.add_row("onnxruntime-cpu", LONG)
    return made


def test_a_pipe_gets_every_row_in_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
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
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert len(rows) > 1
    assert "…" not in "".join(rows)
    assert "".join(row.split("│")[2].strip() for row in rows) == LONG
