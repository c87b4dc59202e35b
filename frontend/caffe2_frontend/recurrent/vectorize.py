"""Vectorization over time: nodes on one row become nodes on the rows of all steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import unsqueeze
from caffe2_frontend.interop.operators import ELEMENTWISE, REDUCTIONS
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True)
class Stacked:
    """The rows of all steps, [T, ...], of a value whose row has ``rank`` dims."""

    value: Value
    rank: int


# An operand: rows to lift over, or an outer value that is the same in every step.
Operand = Stacked | Value | None
Lift = Callable[[Op, ir.Node, Sequence[Operand]], Sequence[Value] | None]


def lift(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    """Emit ``node`` for all steps at once, outside of the loop; None if no rule applies."""
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    if rule is None or not any(isinstance(operand, Stacked) for operand in operands):
        return None
    return rule(op, node, operands)


def can_lift(node: ir.Node) -> bool:
    """Whether a rule may apply to a node."""
    return node.domain == "" and node.op_type in _RULES


def _emit(op: Op, node: ir.Node, inputs: Sequence[Value | None], **changed: object) -> Sequence[Value]:
    attributes = {name: attr.value for name, attr in node.attributes.items()} | changed
    outputs = op.emit(node.op_type, *inputs, outputs=len(node.outputs), **attributes)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _elementwise(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    """Insert dims of 1 after the time axis of operands of lower rank, so that they broadcast as their rows do."""
    ranks = [operand.rank if isinstance(operand, Stacked) else op.rank(operand) for operand in operands if operand]
    rows = [operand.rank for operand in operands if isinstance(operand, Stacked)]
    if any(rank > max(*rows, 1) for rank in ranks):
        return None  # rows spread over a larger outer value: T times as much memory
    # [N] beside [N, M] broadcasts from the end: over all steps [T, N] beside [T, N, M] would align T with N, so that
    # it becomes [T, 1, N].
    target = max(ranks)
    inputs = [
        unsqueeze(op, operand.value, range(1, 1 + target - operand.rank)) if isinstance(operand, Stacked) else operand
        for operand in operands
    ]
    return _emit(op, node, inputs)


def _matmul(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    a, b = operands
    # Only a weight that is the same in every step: one product of T * N rows instead of T products of N.
    if not isinstance(a, Stacked) or isinstance(b, Stacked) or b is None or op.rank(b) != 2:
        return None
    return _emit(op, node, [a.value, b])


def _gemm(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    a, b, c = (*operands, None)[:3]
    plain = all(node.attributes.get_float(name, 1.0) == 1.0 for name in ("alpha", "beta"))
    if not isinstance(a, Stacked) or isinstance(b, Stacked) or b is None or isinstance(c, Stacked) or not plain:
        return None
    if node.attributes.get_int("transA", 0):
        return None
    weight = op.emit("Transpose", b, perm=[1, 0]) if node.attributes.get_int("transB", 0) else b
    y = op.emit("MatMul", a.value, weight)
    return [y if c is None else op.emit("Add", y, c)]


def _axes_input(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    """Move by one the axes of Squeeze, Unsqueeze and reductions that are counted from the front."""
    x = operands[0]
    axes = operands[1] if len(operands) > 1 else None
    if not isinstance(x, Stacked) or axes is None or isinstance(axes, Stacked):
        return None
    known = op.known(axes)
    if known is None:
        return None
    moved = [int(axis) + 1 if axis >= 0 else int(axis) for axis in known]
    return _emit(op, node, [x.value, op.const(moved, np.int64)])


def _axis_attribute(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    x = operands[0]
    if not all(isinstance(o, Stacked) for o in operands[:1]) or not isinstance(x, Stacked):
        return None
    if any(isinstance(o, Stacked) for o in operands[1:]):
        return None
    axis = node.attributes.get_int("axis", -1)
    return _emit(op, node, [x.value, *operands[1:]], axis=axis + 1 if axis >= 0 else axis)  # type: ignore[list-item] # no Stacked among them


def _concat(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    if not all(isinstance(operand, Stacked) for operand in operands):
        return None
    axis = node.attributes.get_int("axis", 0)
    inputs = [operand.value for operand in operands if isinstance(operand, Stacked)]
    return _emit(op, node, inputs, axis=axis + 1 if axis >= 0 else axis)


def _transpose(op: Op, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Value] | None:
    x = operands[0]
    if not isinstance(x, Stacked):
        return None
    perm = node.attributes.get_ints("perm", tuple(reversed(range(x.rank))))
    return _emit(op, node, [x.value], perm=[0, *(axis + 1 for axis in perm)])


_RULES: Final[Mapping[str, Lift]] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys((*REDUCTIONS, "Squeeze", "Unsqueeze"), _axes_input),
    **dict.fromkeys(("Split", "Softmax", "LogSoftmax"), _axis_attribute),
    "Concat": _concat,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Transpose": _transpose,
}
