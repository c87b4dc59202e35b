"""Arithmetic, comparison and logic of several operands."""

from __future__ import annotations

from typing import Final

from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp

family = Family("arithmetic")

_BINARY: Final = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "EQ": "==", "NE": "!=", "GT": ">", "GE": ">=", "LT": "<",
    "LE": "<=", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^",
}  # fmt: skip
_LOGICAL: Final = {"And": "torch.logical_and", "Or": "torch.logical_or", "Xor": "torch.logical_xor"}


def _operands(op: SourceOp) -> tuple[str, str]:
    """Return the two operands, the second with dims of size one appended where it aligns to the left."""
    op.args.ignore("use_grad_hack", "allow_broadcast_fastpath")
    axis, letter = op.args.integer("axis", default=-1), op.args.text("axis_str", default="")
    order = op.args.text("order", default="NCHW")
    if letter:
        axis = order.index(letter) if letter in order else op.refuse("axis_str must be a letter of order")
    if not op.args.flag("broadcast", default=False) or axis == -1:
        return op.x(0), op.x(1)
    second = op.known_rank(1)
    behind = op.known_rank(0) - axis - second
    if second == 0 or behind <= 0:
        return op.x(0), op.x(1)
    return op.x(0), f"{op.x(1)}[{', '.join(['...', *['None'] * behind])}]"


@family.emits(*_BINARY)
def binary(op: SourceOp) -> Source:
    a, b = _operands(op)
    if op.type == "Div":
        dtype = op.dtype(0)
        if dtype is None:
            op.refuse("the element type of the operands is not known: the example inputs do not reach the operator")
        if not dtype.is_floating_point:
            return f'torch.div({a}, {b}, rounding_mode="trunc")'
    return f"{a} {_BINARY[op.type]} {b}"


@family.emits(*_LOGICAL)
def logical(op: SourceOp) -> Source:
    return f"{_LOGICAL[op.type]}({', '.join(_operands(op))})"


@family.emits("Pow")
def power(op: SourceOp) -> Source:
    if op.has(1):
        op.args.ignore("exponent")
        a, b = _operands(op)
        return f"{a} ** {b}"
    op.args.ignore("broadcast", "axis", "axis_str", "order")
    return f"{op.x(0)} ** {literal(op.args.number('exponent'))}"


@family.emits("Mod")
def modulo(op: SourceOp) -> Source:
    name = "torch.remainder" if op.args.flag("sign_follow_divisor", default=False) else "torch.fmod"
    return f"{name}({op.x(0)}, {op.args.integer('divisor')})"


@family.emits("Sum", "SumInt", "SumRelu", "Mean")
def total(op: SourceOp) -> Source:
    text = " + ".join(op.operands)
    if op.type == "Mean":
        return f"({text}) / {op.count}" if op.count > 1 else text
    return f"F.relu({text})" if op.type == "SumRelu" else text


@family.emits("Max", "Min")
def extreme(op: SourceOp) -> Source:
    text = op.x(0)
    for other in op.operands[1:]:
        text = f"torch.{'maximum' if op.type == 'Max' else 'minimum'}({text}, {other})"
    return text


@family.emits("Scale")
def scale(op: SourceOp) -> Source:
    return f"{op.x(0)} * {literal(op.args.number('scale', default=1.0))}"


@family.emits("MatMul")
def matmul(op: SourceOp) -> Source:
    if op.has(2):
        op.refuse("a third operand, whose shape the result takes, is not supported")
    sides = []
    for index, name in enumerate("ab"):
        axis, rank = op.args.integer(f"axis_{name}", default=1), op.rank(index)
        side = op.x(index)
        if rank != 2 or axis != 1:
            if axis != 1:
                op.refuse(f"axis_{name} must be 1")
            side = f"{side}.flatten(1)"
        sides.append(f"{side}.t()" if op.args.flag(f"trans_{name}", default=False) else side)
    return " @ ".join(sides)


@family.emits("BatchMatMul")
def batch_matmul(op: SourceOp) -> Source:
    op.args.ignore("use_scratch", "broadcast")
    if op.known_rank(0) < 2 or op.known_rank(1) < 2:
        op.refuse("the operands must have at least rank 2")
    sides = [
        f"{op.x(index)}.transpose(-1, -2)" if op.args.flag(f"trans_{name}", default=False) else op.x(index)
        for index, name in enumerate("ab")
    ]
    return " @ ".join(sides)


@family.emits("SquaredL2Distance", "L1Distance", "DotProduct")
def distance(op: SourceOp) -> Source:
    x, y = op.x(0), op.x(1)
    inner = {"SquaredL2Distance": f"({x} - {y}).square()", "L1Distance": f"({x} - {y}).abs()"}.get(
        op.type, f"({x} * {y})"
    )
    flat = inner if op.known_rank(0) == 2 else f"{inner}.reshape({x}.shape[0], -1)"
    return f"{flat}.sum(1)" + (" * 0.5" if op.type == "SquaredL2Distance" else "")


@family.emits("LabelCrossEntropy")
def label_cross_entropy(op: SourceOp) -> Source:
    if op.known_rank(0) != 2:
        op.refuse("X must have rank 2")
    return f"-torch.log({op.x(0)}.gather(1, {op.x(1)}.reshape(-1, 1).long()).clamp(min=1e-20)).squeeze(1)"
