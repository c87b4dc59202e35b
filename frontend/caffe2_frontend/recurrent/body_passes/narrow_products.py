"""Faster products with one column, such as the scores of attention: ``x w`` as ``(w' x')'``.

onnxruntime packs a constant right operand ahead of time, in panels of 16 columns, of which 15 are zeros here, and
multiplies by all of them. With the vector on the left and the rows of ``x`` as columns of a transposed right operand
nothing is packed: each element of the result is one dot product, in two thirds (32,000 rows of 256) to a fifth
(500 rows) of the time.
"""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.shapes import reshape, sizes, transpose_matrix, unsqueeze
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.body_passes.body_nodes import is_constant, replace_node
from caffe2_frontend.recurrent.body_passes.hoist import made_inside


def transpose_narrow_products(op: Op, body: Body) -> None:
    """Put the weights of a body's products with one column on the left."""
    inside = made_inside(body)
    results = {*body.after, *body.stacked}
    for node in list(body.op.scope.nodes):
        if node.outputs[0] not in results and _is_narrow(node, inside):
            x, column = node.inputs
            assert x is not None
            assert column is not None
            row = transpose_matrix(op, column)
            replace_node(body, node, lambda within, x=x, row=row: _product(within, x, row))  # type: ignore[misc] # mypy cannot infer a lambda with defaults


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


def _product(op: Op, x: Value, row: Value) -> Value:
    """The product of ``x`` [..., K] with the transpose of ``row`` [1, K], [..., 1]."""
    rank = op.rank(x)
    matrix = x if rank == 2 else reshape(op, x, [-1, op.shape(row)[1]])  # type: ignore[list-item] # a known dim
    product = op.emit("Gemm", row, matrix, transB=1)
    if rank == 2:
        return reshape(op, product, [-1, 1])
    if all(isinstance(dim, int) or dim.value in op.scope.sizes for dim in op.shape(x)[:-1]):
        return reshape(op, product, [*sizes(op, x, 0, rank - 1), 1])  # sizes of inputs, which leave the body
    # All sizes at once: joined in a body, onnxruntime would copy them to a GPU and back.
    rows = op.emit("Shape", x, start=0, end=rank - 1)
    logits = op.emit("Reshape", product, rows, allowzero=1, shape=[_known(dim) for dim in op.shape(x)[:-1]])
    return unsqueeze(op, logits, [rank - 1])


def _known(dim: int | ir.SymbolicDim) -> int | None:
    return dim if isinstance(dim, int) else None
