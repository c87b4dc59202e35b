"""Gradients of elementwise functions."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward
from caffe2_bridge.gradients.operator_maker import Value

family = Family("math")

family.pattern("X0 dY0 -> dX0", "Abs", "Acos", "Asin", "Atan", "Cos", "Erf", "Log1p", "Sin", "Tan")
family.pattern("Y0 dY0 -> dX0", "Reciprocal")
family.pattern("dY0 X0 -> dX0", "Cosh", "Cube", "Sinh")
family.pattern("dY0 Y0 -> dX0", "Cbrt", "Rsqrt")
family.pattern("Y0 dY0 -> dX0", Exp="Mul")
family.pattern("dY0 X0 -> dX0", Log="Div")
family.pattern("dY0 -> dX0", Negative="Negative", NegateGradient="Negative", Scale="Scale")
family.pattern("dY0 X1 -> dX0", SquareRootDivide="SquareRootDivide")


@family.differentiates("Sqr")
def square(op: Forward) -> None:
    """Emit dX = (2 dY) X; dY is scaled in place."""
    op.emit("Scale", [op.dy(0)], [op.dy(0)], scale=2.0)
    op.emit("Mul", [op.dy(0), op.x(0)], [op.dx(0)])


@family.differentiates("Sqrt")
def square_root(op: Forward) -> None:
    """Emit dX = 0.5 dY / Y."""
    op.emit("Scale", [op.dy(0)], [op.dx(0)], scale=0.5)
    op.emit("Div", [op.dx(0), op.y(0)], [op.dx(0)])


@family.differentiates("Pow", copies_arguments=False)
def power(op: Forward) -> None:
    """Emit dX = X ** (e - 1) * dY * e; for exponents that are an operand also de = log(X) * Y * dY.

    If the argument ``broadcast`` is given, even as 0, de is summed to the shape of the exponents.
    """
    if "exponent" in op.args:
        exponent = op.args.number("exponent")
        if not op.in_place(0, 0):
            op.emit("Pow", [op.x(0)], [op.dx(0)], exponent=exponent - 1)
        elif exponent:
            op.emit("Pow", [op.y(0)], [op.dx(0)], exponent=(exponent - 1) / exponent)
        else:
            raise op.error("the operator must not work in place with exponent 0: its gradient needs the input")
        op.emit("Mul", [op.dx(0), op.dy(0)], [op.dx(0)])
        op.emit("Scale", [op.dx(0)], [op.dx(0)], scale=exponent)
        return
    if op.in_place(0, 0) or op.in_place(1, 0):
        raise op.error("the operator must not work in place: its gradient needs the inputs")
    x, exponents, dy, dx, gradient = op.x(0), op.x(1), op.dy(0), op.dx(0), op.dx(1)
    layout: dict[str, Value] = {
        "axis": op.args.integer("axis", default=-1),
        "axis_str": op.args.text("axis_str", default=""),
        "order": op.args.text("order", default="NCHW"),
    }
    broadcast = "broadcast" in op.args
    arguments: dict[str, Value] = {"broadcast": op.args.flag("broadcast"), **layout} if broadcast else {}
    op.emit("ConstantFill", [exponents], [gradient], value=1.0)
    op.emit("Sub", [exponents, gradient], [gradient])
    op.emit("Pow", [x, gradient], [dx], **arguments)
    op.emit("Mul", [dx, dy], [dx])
    op.emit("Mul", [dx, exponents], [dx], **arguments)
    whole = f"{gradient}_autogen_pre_red"
    op.emit("Log", [x], [whole])
    op.emit("Mul", [whole, op.y(0)], [whole])
    op.emit("Mul", [whole, dy], [whole if broadcast else gradient])
    if broadcast:
        op.emit("SumReduceLike", [whole, exponents], [gradient], **layout)
