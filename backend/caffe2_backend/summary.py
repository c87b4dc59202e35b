"""A model in a few tables."""

from __future__ import annotations

from collections import Counter

from rich.table import Table

from caffe2_bridge import Model
from caffe2_bridge.net import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_SHOWN = 20


def summarize(model: Model) -> list[Table]:
    """Inputs and outputs, operators by type (those of bodies apart), and the largest parameters."""
    return [_interface(model), _operators(model), _parameters(model)]


def _interface(model: Model) -> Table:
    table = Table(
        "", "blobs", title=f"{model.source or 'model'}: {NetView(model.predict_net).name}", title_justify="left"
    )
    table.add_row("inputs", "\n".join(model.inputs))
    table.add_row("outputs", "\n".join(model.outputs))
    return table


def _operators(model: Model) -> Table:
    outer, inner = Counter[str](), Counter[str]()
    _count(model.predict_net, outer, inner)
    table = Table("operator", "in the net", "in bodies", title=f"{outer.total()} operators", title_justify="left")
    for name in sorted(outer | inner):
        table.add_row(name, str(outer[name] or ""), str(inner[name] or ""))
    return table


def _count(net: NetDef, outer: Counter[str], inner: Counter[str]) -> None:
    for op in NetView(net).ops:
        outer[op.type] += 1
        for arg in op.proto.arg:
            if arg.HasField("n"):
                _count(arg.n, inner, inner)


def _parameters(model: Model) -> Table:
    parameters = sorted(model.init.parameters.values(), key=lambda p: -p.size * p.dtype.itemsize)
    total = sum(p.size * p.dtype.itemsize for p in parameters)
    table = Table(
        "parameter",
        "type",
        "shape",
        "bytes",
        title=f"{len(parameters)} parameters, {total:,} bytes",
        title_justify="left",
    )
    for parameter in parameters[:_SHOWN]:
        size = parameter.size * parameter.dtype.itemsize
        table.add_row(parameter.name, parameter.dtype.name, " x ".join(map(str, parameter.shape)), f"{size:,}")
    if len(parameters) > _SHOWN:
        table.add_row(f"and {len(parameters) - _SHOWN} more", "", "", "")
    return table
