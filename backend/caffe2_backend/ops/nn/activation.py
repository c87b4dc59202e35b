"""Activations and other functions of single elements."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.conversion import as_float, cast_back, computable
from caffe2_backend.emit.doubles import OF_DOUBLE, halves
from caffe2_backend.emit.functions import function
from caffe2_backend.emit.narrow_types import numbers_of, stored
from caffe2_backend.emit.shapes import shape_of
from caffe2_backend.emit.unsigned import bits_of, bits_of_number, number_of
from caffe2_backend.lowering.emitter import CARRY_HINT
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import CAFFE2_TYPES, STORED_AS, STRING, UNSIGNED
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.operators import ALPHAS
from caffe2_frontend.interop.types import BOOL, DOUBLE, FLOAT, FLOAT16, INT32, INT64

family = Family("activation")

_SAME: Final = (
    "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Reciprocal",
    "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
)  # fmt: skip


@family.converts(*_SAME)
def same(op: Op) -> Value:
    """``Exp(X) -> Y`` and others: the operator of that name, of float; narrow integers are converted there and back.

    Arithmetic computes some of them of doubles.
    """
    x = op.input(0)
    if x.dtype == DOUBLE and op.type in OF_DOUBLE:
        return OF_DOUBLE[op.type](op, x)
    return cast_back(op, function(op, op.type, computable(op, x, (FLOAT,))), x)


@family.converts("Abs", "Relu")
def of_any_number(op: Op) -> Value:
    """``Abs(X) -> Y``, ``Relu(X) -> Y``: the operator of that name, of float; of other types Where."""
    x = op.input(0)
    if op.dtype(x) in (INT32, INT64, DOUBLE):
        is_negative = x < 0
        return op.emit("Where", is_negative, -x if op.type == "Abs" else (~is_negative).cast(x.dtype), x)
    return cast_back(op, op.emit(op.type, computable(op, x, (FLOAT,))), x)


@family.converts("Sign")
def sign(op: Op) -> Value:
    """``Sign(X) -> Y``: Sign; narrow integers are converted to int32 and back."""
    return cast_back(op, op.emit("Sign", computable(op, op.input(0))), op.input(0))


@family.converts("Neg")
def neg(op: Op) -> Value:
    """``Neg(X) -> Y``: Negative."""
    return cast_back(op, -computable(op, op.input(0)), op.input(0))


@family.converts("Not")
def logical_not(op: Op) -> Value:
    """``Not(X) -> Y``: Not."""
    return ~op.input(0)


@family.converts("Identity", "OptionalGetElement")
def identity(op: Op) -> tuple[Value, ...]:
    """``Identity(X) -> Y``, ``OptionalGetElement(X) -> Y`` of a tensor: Copy."""
    if not isinstance(op.operand(0).type, ir.TensorType):
        op.unsupported("Caffe2 has no sequences and no optional values")
    return (op.emit("Copy", op.input(0)),)


@family.converts("Dropout")
def dropout(op: Op) -> tuple[Value, ...]:
    """``Dropout(X, ratio=0.5, training_mode=False) -> Y, mask``: Copy, and a mask of ones; in training Dropout.

    Where the mode or the ratio is computed, UniformFill draws the mask. ONNX does not define the random numbers.
    """
    op.args.ignore("seed", "ratio")
    x, training = op.input(0), op.optional(2)
    mode = None if training is None else op.known(training)
    if training is not None and (mode is None or mode.any()):
        ratio = 0.5 if not op.has_input(1) else op.known_number(op.input(1))
        if mode is None or ratio is None:
            return _drawn(op, x, op.optional(1), training)
        if not 0 <= ratio < 1:
            op.unsupported(f"ratio must be at least 0 and less than 1, not {ratio}", code="invalid-argument")
        op.note("the model was exported in training: Dropout draws random numbers")
        return op.emit("Dropout", op.require(x, FLOAT), outputs=2, ratio=float(ratio), is_test=0)
    if not op.wants(1):
        return (op.emit("Copy", x),)
    return op.emit("Copy", x), op.emit("ConstantFill", x, dtype=BOOL, value=1)


def _drawn(op: Op, x: Value, ratio: Value | None, training: Value) -> tuple[Value, Value]:
    """Return the elements with a random number of [0, 1) of at least the ratio, divided by 1 - ratio, and the mask."""
    op.require(x, FLOAT)
    half = op.const(0.5, FLOAT) if ratio is None else as_float(op, ratio)
    effective = half.reshape([1]) * training.reshape([1]).cast(FLOAT)
    drawn = op.emit("UniformFill", shape_of(op, x), input_as_shape=1, min=0.0, max=1.0) if op.rank(x) else None
    if drawn is None:
        op.unsupported("Caffe2 draws no random scalar")
    mask = drawn >= effective
    return x * mask.cast(FLOAT) / (1.0 - effective), mask


@family.converts(*ALPHAS)
def with_alpha(op: Op) -> Value:
    """``Elu(X; alpha=1) -> Y``, ``LeakyRelu(X; alpha=0.01) -> Y``, ``ThresholdedRelu(X; alpha=1) -> Y``: same names."""
    return op.emit(op.type, op.require(op.input(0), FLOAT), alpha=op.args.number("alpha", default=ALPHAS[op.type]))


@family.converts("Selu")
def selu(op: Op) -> Value:
    """``Selu(X; alpha=1.673..., gamma=1.050...) -> Y``: Selu, whose scale is gamma, or Elu times one not above 1."""
    alpha = op.args.number("alpha", default=1.67326319217681884765625)
    gamma = op.args.number("gamma", default=1.05070102214813232421875)
    x = op.require(op.input(0), FLOAT)
    return op.emit("Selu", x, alpha=alpha, scale=gamma) if gamma > 1 else op.emit("Elu", x, alpha=alpha) * gamma


@family.converts("HardSigmoid")
def hard_sigmoid(op: Op) -> Value:
    """``HardSigmoid(X; alpha=0.2, beta=0.5) -> Y``: HardSigmoid."""
    alpha, beta = op.args.number("alpha", default=0.2), op.args.number("beta", default=0.5)
    return op.emit("HardSigmoid", op.require(op.input(0), FLOAT), alpha=alpha, beta=beta)


@family.converts("HardSwish")
def hard_swish(op: Op) -> Value:
    """``HardSwish(X) -> Y``: x * HardSigmoid(x; alpha=1/6, beta=0.5)."""
    x = op.require(op.input(0), FLOAT)
    return op.emit("HardSigmoid", x, alpha=1 / 6, beta=0.5) * x


@family.converts("Gelu")
def gelu(op: Op) -> Value:
    """``Gelu(X; approximate="none") -> Y``: Gelu, whose ``fast_gelu`` is the approximation by tanh."""
    fast = op.args.choice("approximate", "none", "tanh") == "tanh"
    return op.emit("Gelu", op.require(op.input(0), FLOAT), fast_gelu=int(fast))


@family.converts("Mish")
def mish(op: Op) -> Value:
    """``Mish(X) -> Y``: x * Tanh(Softplus(x))."""
    x = op.require(op.input(0), FLOAT)
    return x * op.emit("Tanh", op.emit("Softplus", x))


@family.converts("Celu")
def celu(op: Op) -> Value:
    """``Celu(X; alpha=1) -> Y``: max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), with Relu, Exp and arithmetic."""
    alpha, x = op.args.number("alpha", default=1.0), op.require(op.input(0), FLOAT)
    negative = (op.emit("Exp", x / alpha) - 1.0) * -alpha
    return op.emit("Relu", x) - op.emit("Relu", negative)


@family.converts("Shrink")
def shrink(op: Op) -> Value:
    """``Shrink(X; bias=0, lambd=0.5) -> Y``: x + bias below -lambd, x - bias above lambd, else 0, with Where.

    Of integers that is computed in double, and truncated, where the bias or the bound is no integer.
    """
    bias, bound = op.args.number("bias", default=0.0), op.args.number("lambd", default=0.5)
    x = computable(op, op.input(0))
    if x.dtype in (INT32, INT64) and (bias % 1 or bound % 1):
        x = x.cast(DOUBLE)
    above, below = x > bound, x < -bound
    upper = op.emit("Where", above, x - bias, x - x)
    return op.emit("Where", below, x + bias, upper).cast(op.dtype(op.input(0)))


@family.converts("Asinh")
def asinh(op: Op) -> Value:
    """``Asinh(X) -> Y``: sign(x) * log1p(a + a / (1/a + sqrt(1 + 1/a^2))), a = |x|, exact for small and large x."""
    x = op.require(op.input(0), FLOAT)
    size = x.absolute()
    inverse = op.emit("Reciprocal", size)
    root = op.emit("Sqrt", op.emit("Sqr", inverse) + 1.0)
    return op.emit("Sign", x) * op.emit("Log1p", size + size / (inverse + root))


@family.converts("Acosh")
def acosh(op: Op) -> Value:
    """``Acosh(X) -> Y``: log(x + sqrt(x - 1) * sqrt(x + 1)), which is NaN below 1."""
    x = op.require(op.input(0), FLOAT)
    return op.emit("Log", x + op.emit("Sqrt", x - 1.0) * op.emit("Sqrt", x + 1.0))


@family.converts("Atanh")
def atanh(op: Op) -> Value:
    """``Atanh(X) -> Y``: log1p(2 x / (1 - x)) / 2."""
    x = op.require(op.input(0), FLOAT)
    return op.emit("Log1p", (x + x) / (1.0 - x)) * 0.5


@family.converts("Round")
def round_(op: Op) -> Value:
    """``Round(X) -> Y``: the nearest integer, the even one of two, with Floor and comparisons."""
    return op.require(op.input(0), FLOAT).round()


@family.converts("IsNaN")
def is_nan(op: Op) -> Value:
    """``IsNaN(X) -> Y``: not (x >= 0 or x < 0)."""
    x = computable(op, op.input(0), (FLOAT, DOUBLE))
    return ~((x >= 0.0) | (x < 0.0))


@family.converts("IsInf")
def is_inf(op: Op) -> Value:
    """``IsInf(X; detect_positive=1, detect_negative=1) -> Y``: x - x is no number, and x is above or below 0."""
    positive, negative = op.args.flag("detect_positive", default=True), op.args.flag("detect_negative", default=True)
    x = computable(op, op.input(0), (FLOAT, DOUBLE))
    is_odd = ~((x - x) >= 0.0)
    above, below = x > 0.0, x < 0.0
    if positive and negative:
        return is_odd & (above | below)
    if positive or negative:
        return is_odd & (above if positive else below)
    return above & below  # nothing is both


@family.converts("Cast", "CastLike")
def cast(op: Op) -> Value:
    """``Cast(X; to) -> Y``, ``CastLike(X, like) -> Y``: Cast; of float16 HalfToFloat and FloatToHalf."""
    op.args.ignore("round_mode", "to")
    saturates = op.args.flag("saturate", default=True)
    x, target = op.input(0), op.output_dtype(0)
    source = op.dtype(x)
    if source in STORED_AS or target in STORED_AS:
        return _cast_of_stored(op, x, target, saturates=saturates)
    for dtype in (source, target):
        if dtype not in CAFFE2_TYPES or dtype == STRING:
            op.unsupported(f"Caffe2 has no Cast from or to {dtype.name.lower()}", code="dtype")
    if source == target:
        return op.emit("Copy", x)
    if source == FLOAT16:
        return op.widen(x).cast(target)
    if target == FLOAT16:
        if source == DOUBLE:
            return halves(op, x)
        return op.narrow(x.cast(FLOAT), FLOAT16)
    return x.cast(target)


def _cast_of_stored(op: Op, x: Value, target: ir.DataType, *, saturates: bool) -> Value:
    """Cast from or to a type that is stored as its bits."""
    both = (x.dtype, target)
    is_narrow = any(dtype in STORED_AS and dtype not in UNSIGNED for dtype in both)
    if op.lowering.carries_nodes or (DOUBLE in both and is_narrow) or STRING in both:
        names = f"{x.dtype.name.lower()} to {target.name.lower()}"
        op.unsupported(f"Caffe2 has no Cast from {names}", CARRY_HINT, "dtype")
    if x.dtype == target:
        return op.emit("Copy", x)
    if x.dtype == ir.DataType.UINT64:
        x = _of_long(op, bits_of(op, x), target)
    elif x.dtype in (FLOAT16, ir.DataType.UINT32):
        x = op.widen(x)
    elif x.dtype in STORED_AS:
        x = numbers_of(op, x)
    if target == ir.DataType.UINT64:
        return bits_of_number(op, x)
    if target == ir.DataType.UINT32:
        return op.narrow(x.cast(INT64), target)
    if target in STORED_AS:
        return stored(op, x, target, saturates=saturates)
    return op.narrow(x.cast(FLOAT), FLOAT16) if target == FLOAT16 else x.cast(target)


def _of_long(op: Op, bits: Value, target: ir.DataType) -> Value:
    """Return unsigned integers of 64 bits as what is cast: to integers they wrap around, whatever their sign."""
    if target.is_integer() or target == BOOL:
        return bits
    return number_of(op, bits, DOUBLE if target == DOUBLE else FLOAT)


_CONSTANTS: Final = (
    "value", "value_float", "value_int", "value_floats", "value_ints", "value_string", "value_strings",
)  # fmt: skip


@family.converts("Constant")
def constant(op: Op) -> Value:
    """``Constant(; value) -> Y``: a parameter."""
    name = next((name for name in _CONSTANTS if name in op.args), None)
    if name is None:
        sparse = "sparse_value" in op.args
        op.unsupported("the value is sparse, and Caffe2 has no sparse tensors" if sparse else "Constant has no value")
    value = op.args.raw(name).value
    array = value.numpy() if name == "value" else np.asarray(value)
    dtype = op.output_dtype(0)
    if dtype == STRING:
        texts = np.empty(array.size, object)
        texts[:] = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1).tolist()]
        return Value(op, array=texts.reshape(array.shape), dtype=STRING)
    return op.const(array, dtype)
