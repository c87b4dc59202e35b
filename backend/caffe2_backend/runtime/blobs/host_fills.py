"""Fills, the operators of init nets, run on the host without a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.memory import lack_of_memory
from caffe2_backend.runtime.values import Int8Tensor, Tensor, to_host
from caffe2_bridge import wire
from caffe2_bridge.diagnostics import Location, NetFormatError, RunError
from caffe2_bridge.init.fills import FILLS, FillError, FillOp, Values
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


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


def stored_fills(init: InitNet) -> NetDef | None:
    """Return the net of an init net that is stored as a whole and has fills alone, without their values; else None."""
    stored = init.stored_operators()
    if stored is None:
        return None
    net, operators = stored
    filled: set[str] = set()
    for op, _ in operators:
        if op.type not in FILLS or len(op.output) != 1 or not filled.issuperset(op.input):
            return None
        filled.update(op.output)
        net.op.append(op)
    return net


def parameter_value(parameter: Parameter) -> Tensor:
    """Return the values of a parameter as a blob."""
    values = parameter.load()
    return values if parameter.scale is None else Int8Tensor(values, parameter.scale, parameter.zero_point or 0)


def run_stored_fills(init: InitNet, net: NetDef, draw: int) -> dict[str, Tensor]:
    """Run an init net one operator at a time, reading each from where it is stored: the blobs that it makes.

    Args:
        init: the init net.
        net: what :func:`stored_fills` returned for it.
        draw: the seed of this run.

    Raises RunError if Caffe2 would refuse an operator.
    """
    stored = init.stored_operators()
    assert stored is not None
    made: dict[str, Tensor] = {}
    for index, (op, values) in enumerate(stored[1]):
        made[op.output[0]] = _own(_fill(OpView(op, index), values, made, net, draw, 0))
    return made


def _own(value: Tensor) -> Tensor:
    """Return the value in memory of its own, not in a mapped file."""
    if isinstance(value, Int8Tensor):
        return value._replace(data=np.require(value.data, requirements=["W", "A"]))
    return np.require(value, requirements=["W", "A"]) if isinstance(value, np.ndarray) else value


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
    values = [arg for arg in op.proto.arg if arg.name == "values"]
    message = Values(lambda: wire.Span.of(values[-1].SerializeToString())) if values else None
    return _fill(op, message, made, net, draw, turn)


def _fill(op: OpView, values: Values | None, made: Mapping[str, Tensor], net: NetDef, draw: int, turn: int) -> Tensor:
    location = Location(net.name or "net", op.index, op.type, op.name)
    device = op.proto.device_option if op.proto.HasField("device_option") else net.device_option
    named = (device.random_seed, *([turn] if turn else [])) if device.HasField("random_seed") else None
    inputs = tuple(_parameter(name, made[name]) for name in op.inputs)
    try:
        filled = FILLS[op.type](FillOp(op.args, values, inputs, named or (draw, op.index)))
        array = filled.make()
    except (FillError, ArgumentError, NetFormatError) as error:
        raise RunError(f"{location}: {error}") from None
    except MemoryError as error:
        raise lack_of_memory(str(location), error) from None
    if array.size != int(np.prod(filled.shape, dtype=object)):
        raise RunError(f"{location}: {array.size} values for the shape {list(filled.shape)}")
    value = as_value(op.outputs[0], array.reshape(filled.shape), copy=False)
    assert isinstance(value, np.ndarray)
    return value if filled.scale is None else Int8Tensor(value, filled.scale, filled.zero_point or 0)


def _parameter(name: str, value: Tensor) -> Parameter:
    def load() -> np.ndarray[Any, Any]:
        return to_host(value)

    array = to_host(value)
    return Parameter(name, array.dtype, array.shape, load)
