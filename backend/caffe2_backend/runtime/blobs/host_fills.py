"""Fills, the operators of init nets, run on the host without a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.values import Int8Tensor, Tensor, to_host
from caffe2_bridge.diagnostics import Location, NetFormatError, RunError
from caffe2_bridge.init.fills import FILLS, FillError, FillOp, Values
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.wire import read as wire


def split_fills(net: NetDef) -> tuple[tuple[OpView, ...], NetDef]:
    """Split a net into the fills that can run first, in order, and the net of the other operators.

    Such a fill reads outputs of such fills only, and no operator before it reads or writes its output.
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
    """Run a fill.

    Args:
        op: the fill.
        made: outputs of the fills before it.
        net: the net, whose device option applies to operators without one.
        draw: the seed of this run, for operators without a seed of their own.
        turn: how often the net ran before: an operator with a seed continues from there.

    Raises RunError if Caffe2 would refuse the operator.
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
        return to_host(value)

    array = to_host(value)
    return Parameter(name, array.dtype, array.shape, load)
