"""Gradients of elementwise arithmetic on several operands, with and without broadcasting."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("elementwise")

family.pattern("dY0 X0 X1 -> dX0 dX1", "Add", "Mul", "Sub")
family.pattern("dY0 X0 X1 Y0 -> dX0 dX1", "Div")
family.pattern("Y0 dY0 X* -> dX*", "Max", "Min")
family.pattern("dY0 -> dX*", "Mean")


@family.differentiates("Sum")
def sum_of_all(op: Forward) -> None:
    """Pass the gradient through to each operand, without an operator."""
    for index in range(len(op.inputs)):
        op.set_dense(index, op.dy(0))


@family.differentiates("WeightedSum")
def weighted_sum(op: Forward) -> None:
    """WeightedSumGradient(dY, X0, w0, X1, w1, ...) -> dX0, dX1, ..., [dw0, dw1, ...]; the latter if ``grad_on_w``."""
    values = range(0, len(op.inputs), 2)
    gradients = [op.dx(index) for index in values]
    if op.args.flag("grad_on_w", default=False):
        gradients += [op.dx(index + 1) for index in values]
    op.emit("WeightedSumGradient", [op.dy(0), *op.inputs], gradients)


@family.differentiates("RowMul")
def row_mul(op: Forward) -> None:
    """Emit dX = RowMul(dY, w); dw = ReduceTailSum(dY * X)."""
    products = f"{op.dx(1)}before_aggregate"
    op.emit("RowMul", [op.dy(0), op.x(1)], [op.dx(0)])
    op.emit("Mul", [op.dy(0), op.x(0)], [products])
    op.emit("ReduceTailSum", [products], [op.dx(1)])
