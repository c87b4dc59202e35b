"""Gradients of arithmetic of two operands, with Caffe2's broadcasting, and of reductions over many operands.

<legacy> in a signature stands for the arguments of Caffe2's legacy broadcasting, which emit.broadcast reads:
broadcast=0, axis=-1, axis_str="" and order="NCHW".
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import div, mul, reshape_like, scalar, total
from caffe2_frontend.emit.broadcast import align_dims, broadcast_axis, require_same_shape, sum_to, sum_to_operand
from caffe2_frontend.emit.operand_checks import NUMBERS, REALS, require_dtype, require_rank, takes
from caffe2_frontend.emit.shapes import cast, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("elementwise_gradient")

_FLOATS: Final = {0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.FLOAT)}


def _aligned(op: Op, dc: Value, a: Value, b: Value) -> Value:
    """Return ``b`` reshaped so that ONNX broadcasts it to ``a`` as Caffe2 does; ``dc`` must have the result's rank."""
    op.args.ignore("use_grad_hack", "allow_broadcast_fastpath")
    axis = broadcast_axis(op)
    aligned = align_dims(op, a, b, axis) if op.args.flag("broadcast", default=False) else b
    require_rank(op, dc, max(op.rank(a), op.rank(aligned)), "the gradient of the result")
    return aligned


@family.converts("AddGradient", "SubGradient")
@takes(NUMBERS, 0)
def sum_gradient(op: Op) -> tuple[Value, Value]:
    """AddGradient | SubGradient(dC, A, B; <legacy>) -> dA, dB: dC summed over the dims that were broadcast."""
    dc, a, b = (op.input(index) for index in range(3))
    aligned = _aligned(op, dc, a, b)
    db = dc if op.type == "AddGradient" else op.emit("Neg", dc)
    return sum_to(op, dc, a), sum_to_operand(op, db, aligned, b)


@family.converts("MulGradient")
@takes(NUMBERS, 0, 1, 2)
def product_gradient(op: Op) -> tuple[Value, Value]:
    """MulGradient(dC, A, B; <legacy>) -> dA, dB.

    ``dC * B`` and ``dC * A``, summed over the dims that were broadcast.
    """
    dc, a, b = (op.input(index) for index in range(3))
    aligned = _aligned(op, dc, a, b)
    return sum_to(op, mul(op, dc, aligned), a), sum_to_operand(op, mul(op, dc, a), aligned, b)


@family.converts("DivGradient")
@takes(NUMBERS, 0, 1, 2, 3)
def quotient_gradient(op: Op) -> tuple[Value, Value]:
    """DivGradient(dC, A, B, C; <legacy>) | DivGradient(B, C, dC; <legacy>) -> dA, dB.

    ``dC / B`` and ``-dC * C / B``, summed over the dims that were broadcast. The second form, in which dC may be
    overwritten by dA, is for an A of the shape of C.
    """
    if len(op.inputs) == 3:
        b, c, dc = (op.input(index) for index in range(3))
        a = c
    else:
        dc, a, b, c = (op.input(index) for index in range(4))
    aligned = _aligned(op, dc, a, b)
    per_a = div(op, dc, aligned)
    per_b = op.emit("Neg", div(op, mul(op, dc, c), aligned))
    return sum_to(op, per_a, a), sum_to_operand(op, per_b, aligned, b)


@family.converts("MaxGradient", "MinGradient", expects=_FLOATS)
@takes(REALS, 0, 1)
def extremum_gradient(op: Op) -> tuple[Value, ...]:
    """MaxGradient | MinGradient(Y, dY, X0, X1, ...) -> dX0, dX1, ...

    The gradient goes to every operand that equals the result.
    """
    y, dy, *operands = op.inputs
    require_same_shape(op, op.inputs)
    dtype = op.dtype(dy)
    return tuple(mul(op, dy, cast(op, op.emit("Equal", x, y), dtype)) for x in operands)


@family.converts("MeanGradient", expects=_FLOATS)
@takes(REALS, 0)
def mean_gradient(op: Op) -> tuple[Value, ...]:
    """MeanGradient(dY) -> dX0, dX1, ...: the same share of the gradient for each."""
    return (mul(op, op.input(0), 1.0 / op.output_count),) * op.output_count


@family.converts("WeightedSumGradient", expects=_FLOATS)
def weighted_sum_gradient(op: Op) -> tuple[Value, ...]:
    """WeightedSumGradient(dY, X0, w0, X1, w1, ...; grad_on_w=0) -> dX0, dX1, ...[, dw0, dw1, ...].

    Weights hold one float each; their gradients, float [1], are given if ``grad_on_w``.
    """
    dy, operands = op.input(0), op.inputs[1:]
    require_dtype(op, dy, REALS, "the gradient")
    terms, weights = operands[::2], operands[1::2]
    on_weights = op.args.flag("grad_on_w", default=False)
    count = len(operands) if on_weights else len(terms)
    if len(operands) % 2 or op.output_count != count:
        op.unsupported(
            f"operands come in pairs after the first, and need {count} outputs: "
            f"{len(operands)} operands and {op.output_count} outputs given",
            code="invalid-operands",
        )
    dtype = op.dtype(dy)
    by_terms = [mul(op, dy, cast(op, scalar(op, weight), dtype)) for weight in weights]
    if not on_weights:
        return tuple(by_terms)
    products = (total(op, mul(op, dy, reshape_like(op, term, dy))) for term in terms)
    return (*by_terms, *(unsqueeze(op, cast(op, value, ir.DataType.FLOAT), [0]) for value in products))
