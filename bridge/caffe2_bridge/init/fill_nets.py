"""Write init nets: a fill operator for each parameter.

Lists of numbers are packed, which every reader of protobuf's format accepts: a float takes four bytes, not five.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.parameters import Array, Parameter
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef, TensorProto
from caffe2_bridge.wire import write as wire_write
from caffe2_bridge.wire.write import Pieces

# The operator that fills a tensor of each type, and the field of its argument that holds the values.
_FILLS: Final = {
    np.dtype(np.float32): ("GivenTensorFill", wire.FLOATS),
    np.dtype(np.float64): ("GivenTensorDoubleFill", wire.FLOATS),
    np.dtype(np.bool_): ("GivenTensorBoolFill", wire.INTS),
    np.dtype(np.int16): ("GivenTensorInt16Fill", wire.INTS),
    np.dtype(np.int32): ("GivenTensorIntFill", wire.INTS),
    np.dtype(np.int64): ("GivenTensorInt64Fill", wire.INTS),
    np.dtype(object): ("GivenTensorStringFill", wire.STRINGS),
    np.dtype(np.uint8): ("GivenTensorByteStringToUInt8Fill", wire.STRINGS),
}
# Types without a fill: the type to fill instead, and the operator that converts it.
_CONVERTED: Final[Mapping[np.dtype[Any], tuple[np.dtype[Any], OperatorDef]]] = {
    np.dtype(np.float16): (np.dtype(np.float32), OperatorDef(type="FloatToHalf")),
    np.dtype(np.int8): (  # as bytes, whose cast wraps: a negative integer of a list takes ten of them
        np.dtype(np.uint8),
        OperatorDef(type="Cast", arg=[Argument(name="to", i=TensorProto.INT8)]),
    ),
    np.dtype(np.uint16): (
        np.dtype(np.int32),
        OperatorDef(type="Cast", arg=[Argument(name="to", i=TensorProto.UINT16)]),
    ),
}


def fill_net(
    parameters: Iterable[Parameter], rest: Iterable[OperatorDef], name: str = "init"
) -> Iterator[bytes | memoryview]:
    """Yield a serialized init net in pieces: a fill for each parameter, then the operators of ``rest``.

    One parameter at a time is in memory, and pieces of what is written of it.

    Raises BridgeError for a parameter that no Caffe2 operator fills exactly.
    """
    yield NetDef(name=name).SerializeToString()
    for parameter in parameters:
        for op in fill_operators(parameter):
            yield from wire_write.len_field(NetDef.OP_FIELD_NUMBER, op)
    for proto in rest:
        yield wire_write.encode_len(NetDef.OP_FIELD_NUMBER, proto.SerializeToString())


def fill_operators(parameter: Parameter) -> Iterator[Pieces]:
    """Yield the serialized operators that fill a parameter: one, or for rare types a fill and a conversion.

    Raises BridgeError as :func:`fill_net` does.
    """
    values = parameter.load()
    if parameter.scale is not None:
        yield _int8_fill(parameter, values)
        return
    if parameter.dtype == np.float64 and not _are_floats(values):
        yield from _sum_of_fills(parameter, values)
        return
    converted = _CONVERTED.get(parameter.dtype)
    if converted is None:
        yield _fill(parameter, parameter.name, values, parameter.dtype)
        return
    filled, operator = converted
    inner = f"{parameter.name}__{filled.name}"
    yield _fill(parameter, inner, values, filled)
    yield _computed(parameter, operator, [inner], parameter.name)


def _fill(parameter: Parameter, output: str, values: Array, filled: np.dtype[Any]) -> Pieces:
    """Fill a blob with values, as elements of the type ``filled``."""
    if filled not in _FILLS:
        raise BridgeError(f"parameter {parameter.name!r} is {filled}, which no operator of Caffe2 fills")
    kind, number = _FILLS[filled]
    if kind == "GivenTensorByteStringToUInt8Fill":
        payload = wire_write.len_field(number, wire_write.raw_bytes(values))
    elif number == wire.STRINGS:
        payload = wire_write.concatenated(*(wire_write.encode_len(number, bytes(text)) for text in values.reshape(-1)))
    elif number == wire.INTS:
        payload = wire_write.len_field(number, wire_write.varints(values))
    else:
        payload = wire_write.len_field(number, wire_write.fixed(values, np.float32))
    return _operator(parameter, kind, output, (), payload)


def _computed(parameter: Parameter, operator: OperatorDef, inputs: Iterable[str], output: str) -> Pieces:
    """Return an operator of the init net that computes a blob from others, where the parameter is."""
    made = OperatorDef()
    made.CopyFrom(operator)
    made.input.extend(inputs)
    made.output.append(output)
    if parameter.device is not None:
        made.device_option.CopyFrom(parameter.device)
    return wire_write.concatenated(made.SerializeToString())


def _are_floats(values: Array) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(values.astype(np.float32), values, equal_nan=True)


def _sum_of_fills(parameter: Parameter, values: Array) -> Iterator[Pieces]:
    """Yield the operators that add up numbers of float32 to float64 values.

    Fills hold float32 numbers. Three of them, of 24 bits each, have the 53 bits of a double, and their sum is exact,
    unless its last bits are below the smallest float32 number or its first ones above the largest.
    """
    parts: list[Array] = []
    total = np.zeros_like(values)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(3):
            rest = np.where(np.isfinite(values), values - total, values if not parts else 0.0)
            parts.append(rest.astype(np.float32).astype(np.float64))
            total = total + parts[-1]
    if not np.array_equal(total, values, equal_nan=True):
        raise BridgeError(
            f"parameter {parameter.name!r} has float64 values beyond the range of float32, which init nets cannot "
            "store; save the model as a minidb database, or cast the parameter to float32"
        )
    names = [f"{parameter.name}__{index}" for index in range(3)]
    for name, part in zip(names, parts, strict=True):
        yield _fill(parameter, name, part, parameter.dtype)
    yield _computed(parameter, OperatorDef(type="Sum"), names, parameter.name)


def _int8_fill(parameter: Parameter, values: Array) -> Pieces:
    wide = parameter.dtype == np.int32
    payload = (
        wire_write.len_field(wire.INTS, wire_write.varints(values))
        if wide
        else wire_write.len_field(wire.STRING, wire_write.raw_bytes(values))
    )
    arguments = (
        Argument(name="Y_scale", f=parameter.scale),
        Argument(name="Y_zero_point", i=parameter.zero_point or 0),
    )
    kind = "Int8GivenIntTensorFill" if wide else "Int8GivenTensorFill"
    return _operator(parameter, kind, parameter.name, arguments, payload)


def _operator(parameter: Parameter, kind: str, output: str, arguments: Iterable[Argument], payload: Pieces) -> Pieces:
    shape = Argument(name="shape", ints=parameter.shape)
    op = OperatorDef(type=kind, output=[output], arg=[shape, *arguments])
    if parameter.device is not None:
        op.device_option.CopyFrom(parameter.device)
    name = Argument(name="values").SerializeToString()
    values = wire_write.len_field(OperatorDef.ARG_FIELD_NUMBER, name, payload)
    return wire_write.concatenated(op.SerializeToString(), values)
