"""Arithmetic, comparison and logic of two or more operands."""

from __future__ import annotations

import math
from functools import reduce

import onnx_ir as ir

from caffe2_backend.emit.shapes import greater, narrowed, same_shape, scalar, widened
from caffe2_backend.emit.value import Number
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import BOOL, DOUBLE, FLOAT, INT32, INT64, Op
from caffe2_backend.ops.tensor.remainder import remainder, with_sign_of_divisor

family = Family("elementwise")

_COMPARISONS = {"Less": "LT", "LessOrEqual": "LE", "Greater": "GT", "GreaterOrEqual": "GE"}


@family.converts("Add", "Sub", "Mul", "Div")
def arithmetic(op: Op) -> str:
    a, b = widened(op, 0)[0], widened(op, 1)[0]
    return narrowed(op, op.emit(op.type, a, b), op.dtype(0))


@family.converts("Pow")
def power(op: Op) -> str:
    """The base's type decides: whole numbers are raised by whole ones, floats by all."""
    base, kind = widened(op, 0)
    exponent, other = widened(op, 1)
    if kind == FLOAT and other == FLOAT:
        known = op.known(1)
        if known is not None and known.size == 1 and op.rank(0) >= known.ndim:
            return narrowed(op, op.emit("Pow", base, exponent=float(known.reshape(-1)[0])), op.dtype(0))
        left, right = same_shape(op, (0, 1), (base, exponent), (FLOAT, FLOAT))
        return narrowed(op, op.emit("Pow", left, right), op.dtype(0))
    if kind in (INT32, INT64) and other in (INT32, INT64):
        return narrowed(op, _whole_power(Number(op, base, kind), Number(op, exponent, other)).blob, op.dtype(0))
    if kind != FLOAT:
        op.unsupported("Caffe2 raises float numbers, and whole ones can be by whole ones", code="dtype")
    left, right = same_shape(op, (0, 1), (base, op.cast(exponent, FLOAT)), (FLOAT, FLOAT))
    return narrowed(op, op.emit("Pow", left, right), op.dtype(0))


def _whole_power(base: Number, exponent: Number) -> Number:
    """Whole numbers to the power of whole ones: squares of squares, multiplied where the exponent has their bit.

    Of an exponent above 63 only whether it is odd counts: what is no power of 0, 1 or -1 then is more than 64 bits. Of
    one below zero the result is that of 1 and -1, else 0.
    """
    odd = exponent % 2
    low = exponent.chosen(odd + 62, exponent <= 63)
    below = exponent < 0
    left = odd.chosen(low, below)
    made, square = base.like(1), base
    for _ in range(6):
        bit = (left % 2).cast(base.dtype)
        made = made * (square * bit + (1 - bit))
        left, square = left // 2, square * square
    nothing = below & ~((base <= 1) & (base >= -1))
    return made * (~nothing).cast(base.dtype)


@family.converts("Mod")
def mod(op: Op) -> str:
    """A remainder has the sign of the dividend (``fmod``), or that of the divisor."""
    truncated = bool(op.integer("fmod", 0))
    a, dtype = widened(op, 0)
    b, _ = widened(op, 1)
    if dtype in (FLOAT, DOUBLE):
        a, b = same_shape(op, (0, 1), (a, b), (dtype, dtype))
        rest = remainder(op, a, b, dtype, max(op.rank(0), op.rank(1)))
        return narrowed(op, rest if truncated else with_sign_of_divisor(op, rest, b, dtype), op.dtype(0))
    rest = op.emit("Sub", a, op.emit("Mul", op.emit("Div", a, b), b))
    if not truncated:
        zero = scalar(op, 0, dtype)
        opposite = op.emit("Xor", op.emit("LT", rest, zero), op.emit("LT", b, zero))
        wrong = op.emit("And", opposite, op.emit("Not", op.emit("EQ", rest, zero)))
        rest = op.emit("Add", rest, op.emit("Mul", op.cast(wrong, dtype), b))
    return narrowed(op, rest, op.dtype(0))


@family.converts("And", "Or", "Xor")
def logical(op: Op) -> str:
    return op.emit(op.type, op.input(0), op.input(1))


@family.converts(*_COMPARISONS)
def compare(op: Op) -> str:
    return op.emit(_COMPARISONS[op.type], widened(op, 0)[0], widened(op, 1)[0])


@family.converts("Equal")
def equal(op: Op) -> str:
    """Caffe2 compares integers and bools; equal floats are those that are neither less nor greater, and no NaN."""
    if op.dtype(0) == BOOL:
        return op.emit("EQ", op.input(0), op.input(1))
    a, dtype = widened(op, 0)
    b, _ = widened(op, 1)
    if dtype in (FLOAT, DOUBLE):
        return op.emit("And", op.emit("LE", a, b), op.emit("GE", a, b))
    return op.emit("EQ", a, b)


@family.converts("Sum")
def total(op: Op) -> str:
    blobs = [widened(op, i)[0] for i in range(op.input_count)]
    if len(blobs) == 1:
        return narrowed(op, blobs[0], op.dtype(0))
    shapes = {tuple(dims) for i in range(op.input_count) if (dims := op.dims(i)) is not None}
    if len(shapes) == 1 and all(op.dims(i) is not None for i in range(op.input_count)):
        return narrowed(op, op.emit("Sum", *blobs), op.dtype(0))
    return narrowed(op, reduce(lambda a, b: op.emit("Add", a, b), blobs), op.dtype(0))


@family.converts("Mean")
def mean(op: Op) -> str:
    blobs = [widened(op, i, (FLOAT, DOUBLE))[0] for i in range(op.input_count)]
    added = reduce(lambda a, b: op.emit("Add", a, b), blobs)
    count = scalar(op, op.input_count, op.dtype(0))
    return narrowed(op, op.emit("Div", added, count) if len(blobs) > 1 else added, op.dtype(0))


@family.converts("Max", "Min")
def extreme(op: Op) -> str:
    pairs = [widened(op, i) for i in range(op.input_count)]
    blobs, dtypes = [blob for blob, _ in pairs], [dtype for _, dtype in pairs]
    same = same_shape(op, range(op.input_count), blobs, dtypes)
    if len(same) > 1 and dtypes[0] == FLOAT:
        return narrowed(op, op.emit(op.type, *same), op.dtype(0))
    return narrowed(op, reduce(lambda a, b: greater(op, a, b, least=op.type == "Min"), same), op.dtype(0))


@family.converts("ai.onnx.ml::Binarizer")
def binarizer(op: Op) -> str:
    """One where a number is above the threshold, else zero; a whole number is above it where it is above its floor."""
    threshold = op.number("threshold", 0.0)
    blob, dtype = widened(op, 0)
    bound = math.floor(threshold) if dtype in (INT32, INT64) else threshold
    return narrowed(op, op.cast(op.emit("GT", blob, scalar(op, bound, dtype)), dtype), op.dtype())


@family.converts("Where")
def where(op: Op) -> str:
    blobs = [op.input(0), widened_any(op, 1), widened_any(op, 2)]
    kind = op.dtype(1)
    condition, x, y = same_shape(op, (0, 1, 2), blobs, (BOOL, kind, kind))
    return narrowed(op, op.emit("Where", condition, x, y), op.dtype(1))


@family.converts("PRelu")
def prelu(op: Op) -> str:
    """max(0, x) + slope * min(0, x): Caffe2's own PRelu has one slope, or one a channel."""
    op.require(0, FLOAT)
    slope, x = op.dims(1), op.input(0)
    if slope is not None and (len(slope) == 0 or set(slope) == {1}) and len(slope) <= op.rank(0):
        return op.emit("PRelu", x, op.reshape(op.input(1), [1]))
    shape = op.shape(0)
    if slope is not None and len(slope) == 1 and op.rank(0) > 1 and slope[0] == shape[1] != shape[-1]:
        return op.emit("PRelu", x, op.input(1))  # as opset 6 has it: one slope a channel
    below = op.emit("Negative", op.emit("Relu", op.emit("Negative", x)))
    return op.emit("Add", op.emit("Relu", x), op.emit("Mul", op.input(1), below))


@family.converts("Clip")
def clip(op: Op) -> str:
    dtype = op.dtype(0)
    low, high = (op.known(i) if op.has_input(i) else None for i in (1, 2))
    fixed = all(op.known(i) is not None for i in (1, 2) if op.has_input(i))
    if dtype == FLOAT and fixed:
        least, most = (None if bound is None else float(bound) for bound in (low, high))
        return op.emit("Clip", op.input(0), min=least, max=most)
    blob, kind = widened(op, 0)
    for index, what in ((1, "Max"), (2, "Min")):
        if op.has_input(index):
            bound = op.input(index) if op.dtype(index) == kind else widened(op, index)[0]
            shapes = same_shape(op, (0, index), (blob, bound), (kind, kind))
            blob = op.emit(what, *shapes) if kind == FLOAT else greater(op, *shapes, least=what == "Min")
    return narrowed(op, blob, dtype)


def widened_any(op: Op, index: int) -> str:
    """An operand that is only moved: bools stay as they are."""
    return op.input(index) if op.dtype(index) in (BOOL, ir.DataType.STRING) else widened(op, index)[0]
