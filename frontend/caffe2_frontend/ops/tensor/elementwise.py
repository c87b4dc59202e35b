"""Arithmetic, comparison and logic of two operands, and reductions over many.

<legacy> in a signature stands for the arguments of Caffe2's legacy broadcasting, which emit.broadcast reads:
broadcast=0, axis=-1, axis_str="" and order="NCHW".
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import mul, reshape_like, scalar
from caffe2_frontend.emit.broadcast import broadcast_operands, require_same_shape
from caffe2_frontend.emit.operand_checks import INDICES, NUMBERS, REALS, require_dtype, takes
from caffe2_frontend.emit.selection import select
from caffe2_frontend.emit.shapes import broadcast_over_rows, cast, reshape
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("elementwise")

_ONNX_NAME: Final = {
    "EQ": "Equal", "GT": "Greater", "GE": "GreaterOrEqual", "LT": "Less", "LE": "LessOrEqual",
}  # fmt: skip
_BOOLEAN: Final = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}
_BOOL: Final = (ir.DataType.BOOL,)
_COMPARED: Final = (*NUMBERS, *_BOOL)
_BOOLS: Final = {0: TensorInfo(ir.DataType.BOOL), 1: TensorInfo(ir.DataType.BOOL)}


@family.converts("Add", "Sub", "Mul", "Div", uniform=True)
def arithmetic(op: Op) -> Value:
    """Add | Sub | Mul | Div(A, B; <legacy>) -> C."""
    op.args.ignore("use_grad_hack", "allow_broadcast_fastpath")
    a, b = _operands(op, NUMBERS)
    # With broadcast=1 also where ONNX cannot know whether a dim of the second operand is larger.
    return op.emit(op.type, a, b, shape=op.shape(a) if op.args.flag("broadcast", default=False) else None)


@family.converts("EQ", "GT", "GE", "LT", "LE", uniform=True)
def comparison(op: Op) -> Value:
    """EQ | GT | GE | LT | LE(A, B; <legacy>) -> C.

    Caffe2 orders booleans too, true being greater than false; ONNX does not.
    """
    a, b = _operands(op, _COMPARED)
    if op.type != "EQ" and op.dtype(a) == ir.DataType.BOOL:
        a, b = (cast(op, v, ir.DataType.INT32) for v in (a, b))
    return op.emit(_ONNX_NAME[op.type], a, b)


@family.converts("And", "Or", "Xor", expects=_BOOLS, uniform=True)
def logical(op: Op) -> Value:
    """And | Or | Xor(A, B; <legacy>) -> C."""
    return op.emit(op.type, *_operands(op, _BOOL))


@family.converts("NE")
def not_equal(op: Op) -> Value:
    """NE(A, B; <legacy>) -> C."""
    return op.emit("Not", op.emit("Equal", *_operands(op, _COMPARED)))


_INTEGER: Final = TensorInfo(ir.DataType.INT32)


@family.converts("BitwiseAnd", "BitwiseOr", "BitwiseXor", expects={0: _INTEGER, 1: _INTEGER})
def bitwise(op: Op) -> Value:
    """BitwiseAnd | BitwiseOr | BitwiseXor(A, B; <legacy>) -> C.

    Caffe2 takes booleans too, for which ONNX has And, Or and Xor.
    """
    a, b = _operands(op, (*INDICES, *_BOOL))
    boolean = op.dtype(a) == ir.DataType.BOOL
    return op.emit(_BOOLEAN[op.type] if boolean else op.type, a, b)


@family.converts("Not", expects=_BOOLS)
def negation(op: Op) -> Value:
    """Not(X) -> Y."""
    require_dtype(op, op.input(0), _BOOL, "the input")
    return op.emit("Not", op.input(0))


@family.converts("Pow", expects={0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.FLOAT)})
def power(op: Op) -> Value:
    """Pow(X[, exponent]; exponent, <legacy>) -> Y.

    The exponent is an argument, or an operand of the shape of X unless ``broadcast``.
    """
    require_dtype(op, op.input(0), REALS, "the base")
    if not op.has_input(1):
        op.args.ignore("broadcast", "axis", "axis_str", "order")
        return op.emit("Pow", op.input(0), op.const(op.args.number("exponent"), op.input(0)))
    op.args.ignore("exponent")
    if not op.args.flag("broadcast", default=False):
        if op.args.integer("axis", default=-1) != -1 or op.args.text("axis_str", default=""):
            op.unsupported("axis and axis_str require broadcast=1", hint="set broadcast=1", code="invalid-argument")
        require_same_shape(op, op.inputs)
    return op.emit("Pow", *broadcast_operands(op))


@family.converts("Mod", expects={0: TensorInfo(ir.DataType.INT64)})
def modulo(op: Op) -> Value:
    """Mod(X; divisor, sign_follow_divisor=0) -> Y.

    The remainder has the dividend's sign, or the divisor's if ``sign_follow_divisor``.
    """
    x, divisor = op.input(0), op.args.integer("divisor")
    if divisor == 0:
        op.unsupported("argument 'divisor' must not be 0", code="invalid-argument")
    require_dtype(op, x, INDICES, "the input")
    dtype = op.dtype(x)
    follows_divisor = op.args.flag("sign_follow_divisor", default=False)
    if divisor in (1, -1):
        return op.emit("Sub", x, x)  # onnxruntime's remainder of the smallest dividend by -1 ends the process
    # An int32 dividend meets a divisor that may need 64 bits.
    wide = dtype if np.can_cast(np.min_scalar_type(divisor), dtype.numpy()) else ir.DataType.INT64
    x = cast(op, x, wide)
    if follows_divisor:
        return cast(op, op.emit("Mod", x, op.const(divisor, wide)), dtype)
    if wide is ir.DataType.INT32:
        return op.emit("Mod", x, op.const(divisor, wide), fmod=1)
    # With fmod onnxruntime divides doubles, which do not hold all of int64. The sign of the divisor has no effect.
    divisor = max(divisor, -divisor) if divisor != np.iinfo(np.int64).min else divisor
    by = op.const(divisor, wide)
    return cast(op, op.emit("Sub", x, op.emit("Mul", op.emit("Div", x, by), by)), dtype)


@family.converts("Sum", "SumInt", uniform=True)
def total(op: Op) -> Value:
    """Sum | SumInt(X0, X1, ...) -> Y.

    Emitted as a chain of Add, because ONNX's Sum does not take integers.
    """
    return _total(op)


@family.converts("SumRelu", uniform=True)
def sum_relu(op: Op) -> Value:
    """SumRelu(X0, X1, ...) -> Y."""
    return op.emit("Relu", _total(op))


@family.converts("Mean", uniform=True)
def mean(op: Op) -> Value:
    """Mean(X0, X1, ...) -> Y."""
    count = len(op.inputs)
    require_dtype(op, op.input(0), REALS, "the input")
    return op.input(0) if count == 1 else mul(op, _total(op), float(np.float32(1 / count)))


@family.converts("Max", "Min")
def extreme(op: Op) -> Value:
    """Max | Min(X0, X1, ...) -> Y."""
    require_same_shape(op, op.inputs)
    require_dtype(op, op.input(0), REALS, "the input")
    return op.emit(op.type, *op.inputs)


def _weighted_operand(_: OpView, index: int) -> TensorInfo:
    """Describe operands: tensors and their weights of one element in turn."""
    return TensorInfo(ir.DataType.FLOAT, (1,) if index % 2 else None)


@family.converts("WeightedSum", expects=_weighted_operand)
def weighted_sum(op: Op) -> Value:
    """WeightedSum(X0, w0, X1, w1, ...) -> Y.

    The weights have one element each, and the result has the shape of X0; of the others only the sizes are compared.
    """
    op.args.ignore("grad_on_w")
    require_dtype(op, op.input(0), REALS, "the input")
    if len(op.inputs) % 2:
        op.unsupported(
            "the operands must be pairs of a tensor and its weight: the last weight is missing", code="missing-input"
        )
    first, *others = op.inputs[::2]
    terms = zip([first, *(reshape_like(op, x, first) for x in others)], op.inputs[1::2], strict=True)
    return reduce(lambda a, b: op.emit("Add", a, b), (mul(op, x, scalar(op, w)) for x, w in terms))


@family.converts("ScaleBlobs")
@takes(REALS, 0)
def scale_blobs(op: Op) -> tuple[Value, ...]:
    """ScaleBlobs(X0, X1, ...; scale=1.0) -> Y0, Y1, ..."""
    scale = op.args.number("scale", default=1.0)
    return tuple(mul(op, x, scale) for x in op.inputs)


@family.converts("RowMul", expects={1: TensorInfo(None, (None,))})
def row_mul(op: Op) -> Value:
    """RowMul(X, w) -> Y: each row of X times one element of w, which may have any shape."""
    x, w = op.input(0), op.input(1)
    require_dtype(op, x, REALS, "the input")
    return mul(op, x, reshape(op, w, [-1, *[1] * (op.rank(x) - 1)]))


@family.converts("Where", expects={0: TensorInfo(ir.DataType.BOOL)})
@takes(_BOOL, 0)
def where(op: Op) -> Value:
    """Where(condition, A, B; broadcast_on_rows=0) -> C.

    All shapes must be equal; with ``broadcast_on_rows`` the condition has one element per row.
    """
    condition, a, b = op.input(0), op.input(1), op.input(2)
    require_same_shape(op, (a, b))
    if op.args.flag("broadcast_on_rows", default=False):
        return select(op, _row_condition(op, condition, a), a, b)
    require_same_shape(op, (condition, a))
    return select(op, condition, a, b)


@family.converts("Conditional", expects={0: TensorInfo(ir.DataType.BOOL, (None,))})
@takes(_BOOL, 0)
def conditional(op: Op) -> Value:
    """Conditional(condition, A, B) -> C: the condition [N] selects whole rows."""
    condition, a, b = op.input(0), op.input(1), op.input(2)
    require_same_shape(op, (a, b))
    if a.dtype != b.dtype and None not in (a.dtype, b.dtype):
        op.unsupported("both operands must have one element type: Caffe2 copies their bytes", code="dtype")
    return select(op, _row_condition(op, condition, a), a, b)


def _operands(op: Op, dtypes: Collection[ir.DataType]) -> tuple[Value, Value]:
    """Return the two operands, broadcast as ONNX does, the first of one of ``dtypes``."""
    require_dtype(op, op.input(0), dtypes, "the first operand")
    return broadcast_operands(op)


def _total(op: Op) -> Value:
    """Return the sum of all operands, which must have equal shapes."""
    require_same_shape(op, op.inputs)
    require_dtype(op, op.input(0), NUMBERS, "the input")
    return reduce(lambda a, b: op.emit("Add", a, b), op.inputs)


def _row_condition(op: Op, condition: Value, x: Value) -> Value:
    """Return a condition [N] that broadcasts over the rows of ``x``."""
    if op.rank(condition) != 1 or op.rank(x) < 1:
        op.unsupported("the condition must be a vector with one element per row", code="invalid-operands")
    return broadcast_over_rows(op, condition, x)
