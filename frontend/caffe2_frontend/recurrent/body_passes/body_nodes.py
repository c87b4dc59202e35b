"""Replacement of single nodes of a body, and the constants that they read."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.body_passes.hoist import keep_place


def replace_node(body: Body, node: ir.Node, emit: Callable[[Op], Value]) -> None:
    """Replace a node of one output, which is not a result of the body, by the nodes that ``emit`` emits."""
    nodes = body.op.scope.nodes
    index = nodes.index(node)
    later = nodes[index + 1 :]
    del nodes[index:]
    result = emit(body.op)
    result.type, result.shape = node.outputs[0].type, node.outputs[0].shape
    keep_place(nodes[index:], node)
    ir.convenience.replace_all_uses_with(node.outputs[0], result)
    for position in range(len(node.inputs)):
        node.replace_input_with(position, None)
    nodes += later


def is_constant(value: Value) -> bool:
    """Whether a value is a parameter that the net does not update, or computed from such parameters alone."""
    waiting, seen = [value], {value}
    while waiting:
        part = waiting.pop()
        node = part.producer()
        if node is None:
            if part.const_value is None:
                return False
            continue
        operands = [operand for operand in node.inputs if operand is not None and operand not in seen]
        seen.update(operands)
        waiting += operands
    return True
