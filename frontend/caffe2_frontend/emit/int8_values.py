"""Int8 tensors: integers that stand for reals by a scale and a zero point, which are known when a net is converted.

In ONNX such a tensor is its integers; how they are to be read is kept beside the value while the net is converted. The
arithmetic is Caffe2's to the last bit: sums of products are whole numbers, and what scales them is written with numbers
of 64 bits, in which no step rounds that does not round in Caffe2.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import Quantization, TensorInfo
from caffe2_frontend.lowering.op import Op, Value

BYTE: Final = ir.DataType.UINT8
WIDE: Final = ir.DataType.INT32
IMAGE: Final = TensorInfo(BYTE, (None,) * 4)

_META: Final = "quantization"


def given(value: Value) -> Quantization | None:
    """How the integers of a value are to be read; None where it is no Int8 tensor, or that is unknown."""
    found: Quantization | None = value.meta.get(_META)
    return found


def quantization(op: Op, value: Value) -> Quantization:
    """How the integers of a value are to be read; unknown is a finding."""
    found = given(value)
    if found is None:
        op.unsupported(
            f"the scale and zero point of {value.name!r} are unknown",
            hint="an input that is an Int8 tensor is given as (dtype, shape, (scale, zero point))",
            code="needs-quantization",
        )
    return found


def require_bytes(op: Op, value: Value, what: str) -> Value:
    """The operand, which must hold bytes."""
    require_dtype(op, value, (BYTE,), what)
    return value


def read_as(value: Value, how: Quantization) -> Value:
    """The value, marked as an Int8 tensor."""
    value.meta[_META] = how
    return value


def on_server(op: Op) -> bool:
    """Whether the operator asks for DNNLOWP, Caffe2's arithmetic for servers: products are scaled in float32."""
    return "DNNLOWP" in op.view.engine


def stated(op: Op, *, server: bool = False) -> Quantization:
    """The output's scale and zero point, which are arguments. ``server``: they mean the same with DNNLOWP."""
    if on_server(op) and not server:
        op.unsupported("with the engine DNNLOWP the operator computes otherwise, and its scale follows from the data")
    return Quantization(op.args.number("Y_scale", default=1.0), op.args.integer("Y_zero_point", default=0))


def asked(op: Op, *, server: bool = False) -> Quantization:
    """The same for an output that holds bytes; what bytes cannot have is a finding."""
    how = stated(op, server=server)
    if how.scale <= 0 or not 0 <= how.zero_point <= 255:
        op.unsupported(
            f"scale {how.scale} and zero point {how.zero_point} are no quantization of bytes", code="invalid-argument"
        )
    return how


def unchanged(op: Op, x: Value) -> Quantization:
    """The operand's quantization, which the arguments must repeat: the operator moves bytes and computes nothing."""
    how, repeated = quantization(op, x), stated(op)
    if np.float32(repeated.scale) != np.float32(how.scale) or repeated.zero_point != how.zero_point:
        op.unsupported(
            f"scale {repeated.scale:.9g} and zero point {repeated.zero_point} are asked for, "
            f"the operand has {how.scale:.9g} and {how.zero_point}",
            code="invalid-argument",
        )
    return how


def lowest(how: Quantization, *, relu: bool) -> int:
    """The least byte of a result: that of zero where what is negative becomes zero."""
    return how.zero_point if relu else 0


def looked_up(op: Op, x: Value, values: Array, dtype: ir.DataType = BYTE) -> Value:
    """A function of one byte, as the table of its 256 values."""
    y: Value = op.emit("Gather", op.const(values, dtype), cast(op, x, WIDE), axis=0)
    return y


def saturated(op: Op, steps: Value, how: Quantization, low: int) -> Value:
    """Whole numbers of steps from the zero point, as bytes."""
    shifted = add(op, cast(op, steps, WIDE), how.zero_point)
    clipped = op.emit("Clip", shifted, op.const(low, np.int32), op.const(255, np.int32))
    return read_as(cast(op, clipped, BYTE), how)


def clipped_at_zero(how: Quantization) -> Quantization:
    """What DNNLOWP makes of the quantization of a result that a Relu follows: all bytes stand for what is positive."""
    largest = float(np.float32(how.scale)) * (255 - how.zero_point)
    return Quantization(float(np.float32(largest / 255)), 0)


def quantized_on_server(op: Op, x: Value, how: Quantization) -> Value:
    """Reals as DNNLOWP makes bytes of them: the zero point is added before they are rounded, halves to even."""
    inverse = np.float32(1) / np.float32(how.scale)
    steps = op.emit("Round", add(op, mul(op, x, float(inverse)), how.zero_point))
    clipped = op.emit("Clip", steps, op.const(0.0, np.float32), op.const(255.0, np.float32))
    return read_as(cast(op, clipped, BYTE), how)


def rounded(op: Op, steps: Value, how: Quantization, low: int) -> Value:
    """Numbers of steps from the zero point as bytes: rounded to the nearest, halves away from zero."""
    # A cast to an integer cuts off what is behind the point.
    if low >= how.zero_point:
        return saturated(op, add(op, steps, 0.5), how, low)
    return saturated(op, add(op, steps, mul(op, op.emit("Sign", steps), 0.5)), how, low)


def requantized(op: Op, total: Value, scale: np.float32, how: Quantization, low: int) -> Value:
    """Sums of products as bytes: scaled in fixed point, and rounded twice.

    The scale, less than 1, is a fraction of 24 bits and a power of two. The product with the fraction is rounded to the
    nearest whole number, halves up; what the power of two leaves of it is rounded once more, halves away from zero.
    """
    fraction, exponent = np.frexp(np.float64(scale))
    product = mul(op, cast(op, total, ir.DataType.DOUBLE), float(fraction))
    whole = op.emit("Floor", add(op, product, 0.5))
    return rounded(op, mul(op, whole, float(2.0**exponent)), how, low) if exponent else saturated(op, whole, how, low)
