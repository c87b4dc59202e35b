"""A model in a few tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.table import Table

from caffe2_backend.picture.summary import Summary, Weight, counted
from caffe2_cli.output.tables import cell

_SHOWN: Final = 20


def summary_tables(summary: Summary) -> list[Table]:
    """Return tables of inputs and outputs, of operators, and of the largest parameters."""
    return [
        _interface(summary.title, summary.inputs, summary.outputs),
        _operators(summary.outer, summary.inner),
        _parameters(summary.weights),
    ]


def _interface(title: str, inputs: Sequence[str], outputs: Sequence[str]) -> Table:
    table = Table("", "blobs", title=cell(title), title_justify="left")
    table.add_row("inputs", cell("\n".join(inputs)))
    table.add_row("outputs", cell("\n".join(outputs)))
    return table


def _operators(outer: Counter[str], inner: Counter[str]) -> Table:
    table = Table("operator", "in the net", "in bodies", title=f"{outer.total()} operators", title_justify="left")
    for name in sorted(outer | inner):
        table.add_row(cell(name), str(outer[name] or ""), str(inner[name] or ""))
    return table


def _parameters(weights: Sequence[Weight]) -> Table:
    ordered = sorted(weights, key=lambda weight: -weight.size)
    total = sum(weight.size for weight in ordered)
    table = Table(
        "parameter",
        "type",
        "shape",
        "bytes",
        title=f"{len(ordered)} parameters, {counted(total)} bytes",
        title_justify="left",
    )
    for weight in ordered[:_SHOWN]:
        table.add_row(cell(weight.name), weight.type, " x ".join(map(str, weight.shape)), counted(weight.size))
    if len(ordered) > _SHOWN:
        table.add_row(f"and {len(ordered) - _SHOWN} more", "", "", "")
    return table
