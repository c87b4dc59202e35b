"""Int8 tensors: integers that represent reals, ``real = scale * (integer - zero_point)``.

Scale and zero point are known at conversion. In ONNX such a tensor is its integers; the quantization is kept in the
value's metadata during conversion. There are two implementations in Caffe2: QNNPACK and, with the engine DNNLOWP,
FBGEMM. The arithmetic is Caffe2's to the last bit: sums of products are integers, and they are scaled in float64 or
int64, where no step rounds that does not round in Caffe2. "Steps" are multiples of the output's scale.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.operators.parameters import is_weight_operand
from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.operand_checks import is_input, require_dtype
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.input_hint import input_hint
from caffe2_frontend.interop.types import INT32, Quantization, TensorInfo
from caffe2_frontend.lowering.dim_facts import as_dim
from caffe2_frontend.lowering.op import Op, Value

BYTE: Final = ir.DataType.UINT8
IMAGE: Final = TensorInfo(BYTE, (None,) * 4)

GIVE_INIT_NET: Final = "give the init net that fills it"  # the begin of the hint for a weight of unknown scale

_META: Final = "quantization"
# What DNNLOWP chooses where the range is 0, and its threshold of small scales.
_SCALE_OF_NO_RANGE: Final = np.float32(0.1)
_LEAST_CHOSEN_SCALE: Final = np.float32(6.1e-5)


def find_quantization(value: Value) -> Quantization | None:
    """Return the quantization of a value; None if it is not an Int8 tensor, or one of unknown scale."""
    quantization: Quantization | None = value.meta.get(_META)
    return quantization


def quantization(
    op: Op, value: Value, example: float | None = None, exactly: Quantization | None = None
) -> Quantization:
    """Return the quantization of a value; refuse the operator if it is unknown.

    Args:
        op: the operator that reads the value.
        value: the value.
        example: a scale that the operator accepts, for the hint; by default a part of the scale of its result.
        exactly: the only quantization that the operator accepts, where there is only one.
    """
    found = find_quantization(value)
    if found is None:
        name = str(value.name)
        scale = op.args.number("Y_scale", default=0.8) / 16 if example is None else example
        wanted = exactly or Quantization(float(f"{scale:.3g}"), 128)
        op.lowering.wanted_scales[name] = wanted
        op.unsupported(unknown_scale_reason(name), hint=_scale_hint(op, value, wanted), code="needs-quantization")
    return found


def unknown_scale_reason(name: str) -> str:
    """Return what is reported of an Int8 operand of unknown quantization."""
    return f"the scale and zero point of {name!r} are unknown"


def _scale_hint(op: Op, value: Value, wanted: Quantization) -> str:
    if is_input(op, value):
        shape = None if value.shape is None else tuple(as_dim(dim) for dim in value.shape)
        described = f"describe it: {input_hint(str(value.name), TensorInfo(BYTE, shape, wanted))}"
        read = {index for index, name in enumerate(op.view.inputs) if name == value.name}
        if any(is_weight_operand(op.view, index) for index in read):
            return f"{GIVE_INIT_NET}: --init FILE, or init_net=...; or {described}"
        return described
    return "fill it with Int8GivenTensorFill in the init net, or write it with Int8Quantize, which state both"


def require_bytes(op: Op, value: Value, what: str) -> Value:
    """Return the operand, after a check that it is uint8."""
    require_dtype(op, value, (BYTE,), what)
    return value


def mark_quantized(value: Value, how: Quantization) -> Value:
    """Record the quantization of a value, and return the value."""
    value.meta[_META] = how
    return value


def uses_dnnlowp(op: Op) -> bool:
    """Whether the operator's engine is DNNLOWP, which scales products in float32."""
    return "DNNLOWP" in op.view.engine


def stated_quantization(op: Op, *, dnnlowp: bool = False) -> Quantization:
    """Return the output's quantization as the arguments ``Y_scale`` (1.0) and ``Y_zero_point`` (0) state it.

    ``dnnlowp``: whether the engine DNNLOWP heeds the arguments too; if not, the operator is refused with that engine.
    """
    if uses_dnnlowp(op) and not dnnlowp:
        op.unsupported(
            "the operator with engine DNNLOWP computes other results, and its output scale depends on the data",
            hint="remove the engine DNNLOWP from the operator",
        )
    return Quantization(op.args.number("Y_scale", default=1.0), op.args.integer("Y_zero_point", default=0))


def output_quantization(op: Op, *, dnnlowp: bool = False) -> Quantization:
    """Return :func:`stated_quantization` for a uint8 output; refuse arguments that uint8 cannot have."""
    if dnnlowp and uses_dnnlowp(op) and "Y_scale" not in op.args:
        op.unsupported(
            f"{op.type} with engine DNNLOWP must have Y_scale: without it the scale depends on the data",
            hint="set Y_scale and Y_zero_point",
        )
    how = stated_quantization(op, dnnlowp=dnnlowp)
    if not 0 < how.scale < np.inf or not 0 <= how.zero_point <= 255:
        op.unsupported(
            f"Y_scale must be positive and finite ({how.scale}) and Y_zero_point between 0 and 255 ({how.zero_point})",
            code="invalid-argument",
        )
    return how


def preserved_quantization(op: Op, x: Value) -> Quantization:
    """Return the quantization of ``x``, which the arguments of an operator that only moves bytes must repeat."""
    repeated = stated_quantization(op)
    how = quantization(op, x, exactly=repeated if "Y_scale" in op.args else None)
    if np.float32(repeated.scale) != np.float32(how.scale) or repeated.zero_point != how.zero_point:
        op.unsupported(
            f"Y_scale and Y_zero_point must be those of the input, {how.scale:.9g} and {how.zero_point}, "
            f"not {repeated.scale:.9g} and {repeated.zero_point}",
            hint=f"set Y_scale={how.scale:.9g} and Y_zero_point={how.zero_point}",
            code="invalid-argument",
        )
    return how


def minimum_byte(how: Quantization, *, relu: bool) -> int:
    """Return the minimum byte of a result: with a Relu that of zero, which is the zero point."""
    return how.zero_point if relu else 0


def look_up_bytes(op: Op, x: Value, values: Array, dtype: ir.DataType = BYTE) -> Value:
    """Apply a function of one byte, given as the table [256] of its values."""
    y: Value = op.emit("Gather", op.const(values, dtype), cast(op, x, INT32), axis=0)
    return y


def saturate(op: Op, steps: Value, how: Quantization, low: int) -> Value:
    """Convert integers of steps from the zero point to bytes, clipped to [``low``, 255]."""
    shifted = add(op, cast(op, steps, INT32), how.zero_point)
    clipped = op.emit("Clip", shifted, op.const(low, np.int32), op.const(255, np.int32))
    return mark_quantized(cast(op, clipped, BYTE), how)


def saturate_reals(op: Op, steps: Value, how: Quantization) -> Value:
    """Convert whole float32 of steps, the zero point among them, to bytes; also those beyond 32 bits."""
    clipped = op.emit("Clip", steps, op.const(0.0, np.float32), op.const(255.0, np.float32))
    return mark_quantized(cast(op, clipped, BYTE), how)


def relu_quantization(how: Quantization) -> Quantization:
    """Return the quantization that DNNLOWP gives a result followed by a Relu: all bytes represent reals from zero on.

    It is chosen for the range up to the largest real, in float32; a range of 0 has a scale of its own, and no scale is
    less than the least one.
    """
    largest = np.float32(how.scale) * np.float32(255 - how.zero_point)
    scale = largest / np.float32(255) if largest else _SCALE_OF_NO_RANGE
    return Quantization(float(max(scale, _LEAST_CHOSEN_SCALE)), 0)


def quantize_dnnlowp(op: Op, x: Value, how: Quantization) -> Value:
    """Quantize reals as DNNLOWP does: the zero point is added before rounding to integers, halves to even.

    Its vector instructions round the product with the inverse scale and the sum once, to float32: both are computed in
    float64 here.
    """
    inverse = np.float32(1) / np.float32(how.scale)
    steps = add(op, mul(op, cast(op, x, ir.DataType.DOUBLE), float(inverse)), how.zero_point)
    return saturate_reals(op, op.emit("Round", cast(op, steps, ir.DataType.FLOAT)), how)


def round_and_saturate(op: Op, steps: Value, how: Quantization, low: int) -> Value:
    """Round real multiples of steps from the zero point to bytes: half away from zero, clipped to [``low``, 255]."""
    # The cast in saturate truncates, so that a half is added; without negative results no sign is needed.
    if low >= how.zero_point:
        return saturate(op, add(op, steps, 0.5), how, low)
    return saturate(op, add(op, steps, mul(op, op.emit("Sign", steps), 0.5)), how, low)


def requantize(op: Op, total: Value, scale: np.float32, how: Quantization, low: int) -> Value:
    """Scale int32 sums of products to bytes in QNNPACK's fixed point, which rounds twice.

    The float32 scale, less than 1, is a fraction of 24 bits times a power of two. The product with the fraction, exact
    in float64, is rounded to an integer, halves up; its multiple of the power of two is rounded again, halves away
    from zero.
    """
    fraction, exponent = np.frexp(np.float64(scale))
    product = mul(op, cast(op, total, ir.DataType.DOUBLE), float(fraction))
    high = op.emit("Floor", add(op, product, 0.5))
    return (
        round_and_saturate(op, mul(op, high, float(2.0**exponent)), how, low)
        if exponent
        else saturate(op, high, how, low)
    )
