"""Fills run on the host, without a session: what init nets are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime.values import Int8Tensor, Tensor, as_value, on_host
from caffe2_bridge.diagnostics import Location, NetFormatError, RunError
from caffe2_bridge.init.fills import FILLS, FillError, FillOp, Values
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.wire import read as wire


def split_fills(net: NetDef) -> tuple[tuple[OpView, ...], NetDef]:
    """The fills of a net that can run before all else, in order, and the net of the other operators.

    They read at most one another, and what they write nothing before them has read or written.
    """
    fills: list[OpView] = []
    rest: list[OpView] = []
    filled: set[str] = set()
    touched: set[str] = set()
    for op in NetView(net).ops:
        alone = len(op.outputs) == 1 and op.outputs[0] not in touched and filled.issuperset(op.inputs)
        if op.type in FILLS and alone:
            fills.append(op)
            filled.update(op.outputs)
        else:
            rest.append(op)
            touched.update((*op.inputs, *op.outputs))
            filled.difference_update(op.outputs)
    if not fills:
        return (), net
    others = NetDef(name=net.name, op=[op.proto for op in rest], arg=net.arg)
    if net.HasField("device_option"):
        others.device_option.CopyFrom(net.device_option)
    others.external_input.extend(net.external_input)
    others.external_output.extend(net.external_output)
    return tuple(fills), others


def run_fill(op: OpView, made: Mapping[str, Tensor], net: NetDef, draw: int, turn: int) -> Tensor:
    """What a fill makes.

    Args:
        op: the fill.
        made: what the fills before it made.
        net: the net, whose device option holds for operators without one.
        draw: the seed of this run, for operators that name none.
        turn: how often the net ran before: an operator that names a seed goes on from there.

    Raises RunError where the operator is not what Caffe2 takes.
    """
    place = Location(net.name or "net", op.index, op.type, op.name)
    values = [arg for arg in op.proto.arg if arg.name == "values"]
    message = Values(lambda: wire.Span.of(values[-1].SerializeToString())) if values else None
    device = op.proto.device_option if op.proto.HasField("device_option") else net.device_option
    named = (device.random_seed, *([turn] if turn else [])) if device.HasField("random_seed") else None
    inputs = tuple(_parameter(name, made[name]) for name in op.inputs)
    try:
        filled = FILLS[op.type](FillOp(op.args, message, inputs, named or (draw, op.index)))
        array = filled.make()
    except (FillError, ArgumentError, NetFormatError) as error:
        raise RunError(f"{place}: {error}") from None
    if array.size != int(np.prod(filled.shape, dtype=object)):
        raise RunError(f"{place}: {array.size} values for the shape {list(filled.shape)}")
    value = as_value(op.outputs[0], array.reshape(filled.shape), copy=False)
    assert isinstance(value, np.ndarray)
    return value if filled.scale is None else Int8Tensor(value, filled.scale, filled.zero_point or 0)


def _parameter(name: str, value: Tensor) -> Parameter:
    def load() -> np.ndarray[Any, Any]:
        return on_host(value)

    array = on_host(value)
    return Parameter(name, array.dtype, array.shape, load)
