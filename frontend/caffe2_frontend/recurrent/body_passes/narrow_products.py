"""Faster products with one column, such as the scores of attention: ``x w`` as ``(w' x')'``.

onnxruntime packs a constant right operand ahead of time, in panels of 16 columns, of which 15 are zeros here, and
multiplies by all of them. With the vector on the left and the rows of ``x`` as columns of a transposed right operand
nothing is packed: each element of the result is one dot product, in two thirds (32,000 rows of 256) to a fifth
(500 rows) of the time.
"""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.shapes import reshape, sizes, transpose_matrix, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import Body, branch
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.body_passes.block_products import emit_blocks, find_sum
from caffe2_frontend.recurrent.body_passes.body_nodes import is_constant, replace_node
from caffe2_frontend.recurrent.body_passes.hoist import made_inside, remove_dead_nodes


def transpose_narrow_products(op: Op, body: Body) -> None:
    """Put the weights of a body's products with one column on the left; multiply large sums in blocks."""
    inside = made_inside(body)
    results = {*body.after, *body.stacked}
    for node in list(body.op.scope.nodes):
        if node.outputs[0] not in results and _is_narrow(node, inside):
            _transpose(op, body, node, inside)
    remove_dead_nodes(body)


def _transpose(op: Op, body: Body, node: ir.Node, inside: set[Value]) -> None:
    x, column = node.inputs
    assert x is not None
    assert column is not None
    row = transpose_matrix(op, column)
    dims = _dims(op, x)
    found = find_sum(body, x, inside)
    blocks = None if found is None else emit_blocks(op, body, found)
    if found is None or blocks is None:
        replace_node(body, node, lambda within: _product(within, x, row, dims))
        return

    def in_blocks(within: Op) -> Value:
        heights = blocks.heights
        sums = (found.emit(within, rows, height) for rows, height in zip(blocks.rows, heights, strict=True))
        products = [_flat_product(within, value, row) for value in sums]
        return reshape(within, within.emit("Concat", *products, axis=1), [blocks.count, -1, 1])

    def at_once(within: Op) -> Value:
        return _product(within, found.emit(within, found.whole, found.dims[0]), row, dims)

    def either(within: Op) -> Value:
        if blocks.used is None:
            return in_blocks(within)
        return branch(within, blocks.used, lambda inside: [in_blocks(inside)], lambda inside: [at_once(inside)])[0]

    replace_node(body, node, either)


def _is_narrow(node: ir.Node, inside: set[Value]) -> bool:
    """Whether a node multiplies a value of the step by a constant matrix of one column and a known number of rows."""
    if node.op_type != "MatMul" or node.domain:
        return False
    x, column = node.inputs
    if x is None or column is None or x not in inside or column in inside or column.dtype != ir.DataType.FLOAT:
        return False
    shape = column.shape
    if shape is None or len(shape) != 2 or shape[1] != 1 or not isinstance(shape[0], int) or shape[0] == 0:
        return False
    return x.shape is not None and len(x.shape) >= 2 and is_constant(column)


def _dims(op: Op, x: Value) -> Value | None:
    """Return the dims of the product with ``x``, computed in front of the loop; None if they depend on the step."""
    shape = op.shape(x)[:-1]
    if len(shape) < 2 or not all(isinstance(dim, int) or dim.value in op.scope.sizes for dim in shape):
        return None
    return vector(op, [*sizes(op, x, 0, len(shape)), 1])


def _product(op: Op, x: Value, row: Value, dims: Value | None) -> Value:
    """Return the product of ``x`` [..., K] with the transpose of ``row`` [1, K], [..., 1]."""
    rank = op.rank(x)
    product = _flat_product(op, x, row)
    if rank == 2:
        return reshape(op, product, [-1, 1])
    shape = [_known(dim) for dim in op.shape(x)[:-1]]
    if dims is not None:
        return op.emit("Reshape", product, dims, allowzero=1, shape=[*shape, 1])
    # All sizes at once: joined in a body, onnxruntime would copy them to a GPU and back.
    rows = op.emit("Shape", x, start=0, end=rank - 1)
    logits = op.emit("Reshape", product, rows, allowzero=1, shape=shape)
    return unsqueeze(op, logits, [rank - 1])


def _flat_product(op: Op, x: Value, row: Value) -> Value:
    """Return the product of all rows of ``x`` [..., K] with ``row`` [1, K], [1, rows]."""
    matrix = x if op.rank(x) == 2 else reshape(op, x, [-1, op.shape(row)[1]])  # type: ignore[list-item] # a known dim
    return op.emit("Gemm", row, matrix, transB=1)


def _known(dim: int | ir.SymbolicDim) -> int | None:
    return dim if isinstance(dim, int) else None
