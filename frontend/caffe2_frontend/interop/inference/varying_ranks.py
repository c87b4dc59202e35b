"""Values whose rank depends on the branch that an If takes, or on the iterations of a Loop: no shape is declared."""

from __future__ import annotations

from typing import Final

import onnx
import onnx_ir as ir

from caffe2_frontend.interop.domains import STANDARD_DOMAINS

_VARIES: Final = "varying rank"


def mark_varying_ranks(source: ir.Model, target: ir.Model) -> None:
    """Mark the outputs of a converted model whose rank varies in the model that it was converted from."""
    for value, converted in zip(source.graph.outputs, target.graph.outputs, strict=True):
        if value.shape is None and has_varying_rank(value):
            mark_varying_rank(converted)


def mark_varying_rank(value: ir.Value) -> None:
    """Note that the rank of a value varies, which what makes it does not show."""
    value.meta[_VARIES] = True


def has_varying_rank(value: ir.Value) -> bool:
    """Whether a value of unknown rank follows from an If whose branches have known ranks that differ, or from a Loop.

    The last state of a Loop has an unknown rank where that of the state before an iteration is another one than after.
    """
    waiting, seen = [value], {value}
    while waiting:
        found = waiting.pop()
        if _VARIES in found.meta:
            return True
        node = found.producer()
        if node is None:
            continue
        operands = list(node.inputs)
        if node.op_type == "Loop" and node.domain in STANDARD_DOMAINS and _is_state(found, node):
            return True
        if node.op_type == "If" and node.domain in STANDARD_DOMAINS:
            branches = _results(node)
            if any(map(ranks_differ, *branches)):
                return True
            operands += [result for results in branches for result in results]
        for operand in operands:
            if operand is not None and operand.shape is None and operand not in seen:
                seen.add(operand)
                waiting.append(operand)
    return False


def ranks_differ(one: ir.Value, other: ir.Value) -> bool:
    """Whether the ranks of two values are known, and not the same."""
    return one.shape is not None and other.shape is not None and len(one.shape) != len(other.shape)


def declare_stand_ins(proto: onnx.ModelProto) -> None:
    """Declare a shape for the outputs that have none, in place: ONNX's checker only requires that there is one."""
    for info in proto.graph.output:
        if info.type.HasField("tensor_type") and not info.type.tensor_type.HasField("shape"):
            info.type.tensor_type.shape.SetInParent()


def _is_state(value: ir.Value, loop: ir.Node) -> bool:
    """Whether an output of a Loop is the last state of one whose initial rank is known."""
    initial = loop.inputs[2 + (value.index() or 0) :][:1]
    return any(state is not None and state.shape is not None for state in initial)


def _results(node: ir.Node) -> list[list[ir.Value]]:
    return [list(node.attributes[name].as_graph().outputs) for name in ("then_branch", "else_branch")]
