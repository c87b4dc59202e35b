"""Casts between element types."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.data_type import data_type
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import CAFFE2_TO_ONNX, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("cast")

_FLOAT16_MAX: Final = 65504.0
_FLOATING: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_NARROW: Final = (ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.UINT16, ir.DataType.INT16)
# Caffe2's Cast does not support float16 and the obsolete BYTE as targets.
_TARGETS: Final = {k: v for k, v in CAFFE2_TO_ONNX.items() if k not in (TensorProto.FLOAT16, TensorProto.BYTE)}


@family.converts("Cast")
def cast_to(op: Op) -> Value:
    """Cast(X; to="FLOAT", from_type) -> Y.

    Floats are cast to narrow integers by way of int32, so that values out of range wrap around as in Caffe2; ONNX
    leaves them undefined. Booleans become the strings "0" and "1". ``from_type`` has no effect.
    """
    op.args.ignore("from_type")
    x, to = op.input(0), _target(op)
    source = op.dtype(x)
    if source in (ir.DataType.FLOAT16, ir.DataType.STRING):
        hint = "use HalfToFloat" if source == ir.DataType.FLOAT16 else ""
        op.unsupported(f"Cast does not support {source.name} operands", hint=hint, code="invalid-operands")
    if source in _FLOATING and to == ir.DataType.STRING:
        op.unsupported(
            "Cast from float to string is not supported: Caffe2 writes six decimals, ONNX the shortest exact form"
        )
    if (source in _FLOATING and to in _NARROW) or (source == ir.DataType.BOOL and to == ir.DataType.STRING):
        x = cast(op, x, ir.DataType.INT32)
    return cast(op, x, to)


@family.converts("FloatToHalf", expects={0: TensorInfo(ir.DataType.FLOAT)})
def float_to_half(op: Op) -> Value:
    """FloatToHalf(X; clip=0) -> Y.

    Values beyond the float16 range become infinite, or the largest finite float16 if ``clip``.
    """
    x = op.input(0)
    if op.args.flag("clip", default=False):
        x = op.emit("Clip", x, *(op.const(bound, x) for bound in (-_FLOAT16_MAX, _FLOAT16_MAX)))
    return cast(op, x, ir.DataType.FLOAT16)


@family.converts("HalfToFloat", expects={0: TensorInfo(ir.DataType.FLOAT16)})
def half_to_float(op: Op) -> Value:
    """HalfToFloat(X) -> Y."""
    return cast(op, op.input(0), ir.DataType.FLOAT)


def _target(op: Op) -> ir.DataType:
    """Return the element type named by the argument ``to``: a TensorProto number, or a name in any case."""
    number = data_type(op.args, "to", default=TensorProto.FLOAT)
    if number not in _TARGETS:
        op.unsupported(
            f"argument 'to' must be an element type that Cast supports, not {number}", code="invalid-argument"
        )
    return _TARGETS[number]
