"""Functions of one operand, number by number."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.shapes import LARGEST, narrowed, round_half_even, scalar, widened
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import BOOL, CAFFE2_TYPES, DOUBLE, FLOAT, INT32, INT64, Op

family = Family("activation")

_SAME: Final = (
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Reciprocal", "Relu",
    "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
)  # fmt: skip


@family.converts(*_SAME)
def same(op: Op) -> str:
    blob, _ = widened(op, 0, (FLOAT,))
    return narrowed(op, op.emit(op.type, blob), op.dtype(0))


@family.converts("Neg")
def negative(op: Op) -> str:
    blob, _ = widened(op, 0)
    return narrowed(op, op.emit("Negative", blob), op.dtype(0))


@family.converts("Not")
def negation(op: Op) -> str:
    return op.emit("Not", op.input(0))


@family.converts("Identity", "Dropout")
def identity(op: Op) -> tuple[str, ...]:
    if op.type == "Identity":
        if not isinstance(op.value(0).type, ir.TensorType):
            op.unsupported("Caffe2 has no sequences")
        return (op.emit("Copy", op.input(0)),)
    op.ignore("seed", "ratio")
    if op.has_input(2) and op.constant(2, "training_mode").any():
        op.unsupported("dropout in training draws random numbers of its own")
    if not op.wants(1):
        return (op.emit("Copy", op.input(0)),)
    return op.emit("Copy", op.input(0)), op.emit("ConstantFill", op.input(0), dtype=CAFFE2_TYPES[BOOL], value=1)


def _of_float(op: Op) -> str:
    op.require(0, FLOAT)
    return op.input(0)


@family.converts("Elu", "LeakyRelu", "ThresholdedRelu")
def with_alpha(op: Op) -> str:
    default = {"Elu": 1.0, "LeakyRelu": 0.01, "ThresholdedRelu": 1.0}[op.type]
    return op.emit(op.type, _of_float(op), alpha=op.number("alpha", default))


@family.converts("Selu")
def selu(op: Op) -> str:
    alpha, gamma = op.number("alpha", 1.67326319217681884765625), op.number("gamma", 1.05070102214813232421875)
    return op.emit("Selu", _of_float(op), alpha=alpha, scale=gamma)


@family.converts("HardSigmoid")
def hard_sigmoid(op: Op) -> str:
    return op.emit("HardSigmoid", _of_float(op), alpha=op.number("alpha", 0.2), beta=op.number("beta", 0.5))


@family.converts("HardSwish")
def hard_swish(op: Op) -> str:
    return op.emit("Mul", op.emit("HardSigmoid", _of_float(op), alpha=1 / 6, beta=0.5), op.input(0))


@family.converts("Gelu")
def gelu(op: Op) -> str:
    return op.emit("Gelu", _of_float(op), fast_gelu=int(op.text("approximate", "none") == "tanh"))


@family.converts("Mish")
def mish(op: Op) -> str:
    return op.emit("Mul", _of_float(op), op.emit("Tanh", op.emit("Softplus", op.input(0))))


@family.converts("Celu")
def celu(op: Op) -> str:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    alpha, x = op.number("alpha", 1.0), _of_float(op)
    grown = op.emit("Exp", op.emit("Div", x, scalar(op, alpha, FLOAT)))
    below = op.emit("Mul", op.emit("Sub", grown, scalar(op, 1.0, FLOAT)), scalar(op, -alpha, FLOAT))
    return op.emit("Sub", op.emit("Relu", x), op.emit("Relu", below))


@family.converts("Shrink")
def shrink(op: Op) -> str:
    bias, bound = op.number("bias", 0.0), op.number("lambd", 0.5)
    x, dtype = widened(op, 0)
    above, below = op.emit("GT", x, scalar(op, bound, dtype)), op.emit("LT", x, scalar(op, -bound, dtype))
    if dtype in (INT32, INT64) and (bias % 1 or bound % 1):
        op.unsupported("shrinking whole numbers by a bias or a bound that is none", code="dtype")
    zero = op.emit("Sub", x, x)
    up = op.emit("Where", above, op.emit("Sub", x, scalar(op, bias, dtype)), zero)
    return narrowed(op, op.emit("Where", below, op.emit("Add", x, scalar(op, bias, dtype)), up), op.dtype(0))


@family.converts("Asinh")
def asinh(op: Op) -> str:
    """sign(x) * log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))."""
    x = _of_float(op)
    one, square = scalar(op, 1.0, FLOAT), op.emit("Sqr", x)
    root = op.emit("Sqrt", op.emit("Add", square, one))
    inner = op.emit("Add", op.emit("Abs", x), op.emit("Div", square, op.emit("Add", root, one)))
    return op.emit("Mul", op.emit("Sign", x), op.emit("Log1p", inner))


@family.converts("Acosh")
def acosh(op: Op) -> str:
    """log(x + sqrt((x - 1) * (x + 1)))."""
    x, one = _of_float(op), scalar(op, 1.0, FLOAT)
    inside = op.emit("Mul", op.emit("Sub", x, one), op.emit("Add", x, one))
    return op.emit("Log", op.emit("Add", x, op.emit("Sqrt", inside)))


@family.converts("Atanh")
def atanh(op: Op) -> str:
    """log1p(2 x / (1 - x)) / 2."""
    x = _of_float(op)
    ratio = op.emit("Div", op.emit("Add", x, x), op.emit("Sub", scalar(op, 1.0, FLOAT), x))
    return op.emit("Mul", op.emit("Log1p", ratio), scalar(op, 0.5, FLOAT))


@family.converts("Round")
def rounded(op: Op) -> str:
    return round_half_even(op, _of_float(op))


@family.converts("IsNaN")
def is_nan(op: Op) -> str:
    """A NaN is neither at least zero nor below it."""
    x, dtype = widened(op, 0, (FLOAT, DOUBLE))
    zero = scalar(op, 0.0, dtype)
    return op.emit("Not", op.emit("Or", op.emit("GE", x, zero), op.emit("LT", x, zero)))


@family.converts("IsInf")
def is_infinite(op: Op) -> str:
    positive, negative_ = op.integer("detect_positive", 1), op.integer("detect_negative", 1)
    x, dtype = widened(op, 0, (FLOAT, DOUBLE))
    largest = LARGEST if dtype == FLOAT else float(np.finfo(np.float64).max)
    above, below = op.emit("GT", x, scalar(op, largest, dtype)), op.emit("LT", x, scalar(op, -largest, dtype))
    if positive and negative_:
        return op.emit("Or", above, below)
    if positive or negative_:
        return above if positive else below
    return op.emit("And", above, below)


@family.converts("Cast", "CastLike")
def cast(op: Op) -> str:
    op.ignore("saturate", "round_mode")
    target = op.output_dtype(0)
    op.ignore("to")
    source, blob = op.dtype(0), op.input(0)
    half = ir.DataType.FLOAT16
    for dtype in (source, target):
        if dtype not in CAFFE2_TYPES or dtype == ir.DataType.STRING:
            op.unsupported(f"Caffe2 casts no {dtype.name.lower()}", code="dtype")
    if source == target:
        return op.emit("Copy", blob)
    if source == half:
        blob = op.emit("HalfToFloat", blob)
        return blob if target == FLOAT else op.cast(blob, target)
    if target == half:
        if source == DOUBLE:
            op.unsupported("float16 of a double is rounded twice", code="dtype")
        return op.emit("FloatToHalf", blob if source == FLOAT else op.cast(blob, FLOAT))
    return op.cast(blob, target)


@family.converts("Constant")
def constant(op: Op) -> str:
    known = ("value", "value_float", "value_int", "value_floats", "value_ints", "value_string", "value_strings")
    name = next(filter(op.has, known), None)
    if name is None:
        sparse = op.has("sparse_value")
        op.unsupported("its value is sparse, and Caffe2 has no such tensors" if sparse else "it has no value")
    op.ignore(name)
    value = op.node.attributes[name].value
    array = value.numpy() if name == "value" else np.asarray(value)
    kind = op.output_dtype(0)
    if kind not in CAFFE2_TYPES:
        op.unsupported(f"Caffe2 has no tensors of {kind.name.lower()}", code="dtype")
    if kind == ir.DataType.STRING:
        texts = np.empty(array.size, object)
        texts[:] = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1).tolist()]
        return op.const(texts.reshape(array.shape))
    return op.const(array, kind)
