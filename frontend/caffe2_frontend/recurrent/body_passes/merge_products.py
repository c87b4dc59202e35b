"""Merging of small matrix products with a common operand."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value


def join_products(op: Op, body: Body) -> None:
    """Replace the products of one value with several outer matrices by one product with the concatenated matrices.

    The matrices are put together outside of the loop, once; the product is cut apart again.
    """
    groups: dict[Value, list[ir.Node]] = {}
    made = {value for node in body.op.scope.nodes for value in node.outputs} | {*body.states, *body.rows}
    for node in body.op.scope.nodes:
        operand, matrix = (*node.inputs, None)[:2] if node.op_type == "MatMul" else (None, None)
        if operand is not None and matrix is not None and matrix not in made and _width(matrix) is not None:
            groups.setdefault(operand, []).append(node)
    for nodes in groups.values():
        if len(nodes) > 1:
            _join(op, body, nodes)


def _width(matrix: Value) -> int | None:
    if matrix.shape is None or len(matrix.shape) != 2:
        return None
    width = matrix.shape[1]
    return width if isinstance(width, int) else None


def _join(op: Op, body: Body, nodes: list[ir.Node]) -> None:
    """Insert the merged product at the index of the first product."""
    matrices = [node.inputs[1] for node in nodes]
    widths = [_width(matrix) for matrix in matrices if matrix is not None]
    joined = op.emit("Concat", *matrices, axis=1)
    place = body.op.scope.nodes.index(nodes[0])
    behind = body.op.scope.nodes[place:]
    del body.op.scope.nodes[place:]
    product = body.op.emit("MatMul", nodes[0].inputs[0], joined)
    parts = body.op.emit("Split", product, op.const(widths, "int64"), axis=-1, outputs=len(nodes))
    assert isinstance(parts, tuple)
    for node, part in zip(nodes, parts, strict=True):
        part.type, part.shape = node.outputs[0].type, node.outputs[0].shape
        ir.convenience.replace_all_uses_with(node.outputs[0], part)
    body.op.scope.nodes += [node for node in behind if node not in nodes]
