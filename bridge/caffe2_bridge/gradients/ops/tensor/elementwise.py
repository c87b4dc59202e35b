"""Arithmetic of several operands, element by element, with and without broadcasting."""

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
    """The gradient of each operand is that of the sum, and no operator computes it."""
    for index in range(len(op.inputs)):
        op.set_dense(index, op.dy(0))


@family.differentiates("WeightedSum")
def weighted_sum(op: Forward) -> None:
    values = range(0, len(op.inputs), 2)
    gradients = [op.dx(index) for index in values]
    if op.args.flag("grad_on_w", default=False):
        gradients += [op.dx(index + 1) for index in values]
    op.emit("WeightedSumGradient", [op.dy(0), *op.inputs], gradients)


@family.differentiates("RowMul")
def row_mul(op: Forward) -> None:
    """A product of each row of the first operand with one element of the second."""
    products = f"{op.dx(1)}before_aggregate"
    op.emit("RowMul", [op.dy(0), op.x(1)], [op.dx(0)])
    op.emit("Mul", [op.dy(0), op.x(0)], [products])
    op.emit("ReduceTailSum", [products], [op.dx(1)])
