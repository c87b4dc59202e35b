"""Faster products in the loops of training: ``x W`` of a small batch as ``(W' x')'``.

onnxruntime packs the right operand of a product each time it runs, unless it is a constant. The weights of a training
net are not constants, and packing them takes about as long as multiplying them by 16 rows. With the weights on the left
the small operand is packed. The width of the result is then the batch, which is computed in vectors of 16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import Size, size, squeeze, transpose_matrix
from caffe2_frontend.emit.subgraphs import Body, branch
from caffe2_frontend.interop.operators import PRODUCTS
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.body_passes.body_nodes import is_constant, replace_node
from caffe2_frontend.recurrent.body_passes.hoist import made_inside

# Measured on AVX-512: the plain product is faster for other batches.
_VECTOR: Final = 16
_MAX_BATCH: Final = 128
# Smaller matrices stay in the first-level cache, where packing is cheap.
_MIN_ELEMENTS: Final = 128 * 128


def transpose_products(op: Op, body: Body) -> None:
    """Transpose the products of a body with large outer matrices.

    If the batch is known at run time only, an If chooses between the two forms.
    """
    products = _products(body)
    if not products:
        return
    batch = size(op, body.initial[0], -2)
    if isinstance(batch, int) and not _is_suited(batch):
        return
    suited = None if isinstance(batch, int) else _emit_suited(op, batch)
    for node in products:
        _replace(op, body, node, suited)


def _is_suited(batch: int) -> bool:
    return batch % _VECTOR == 0 and 0 < batch <= _MAX_BATCH


def _emit_suited(op: Op, batch: Size) -> Value:
    assert not isinstance(batch, int)
    number = squeeze(op, batch, [0])
    whole = op.emit("Equal", op.emit("Mod", number, op.const(_VECTOR, np.int64)), op.const(0, np.int64))
    return op.emit("And", whole, op.emit("LessOrEqual", number, op.const(_MAX_BATCH, np.int64)))


def _products(body: Body) -> list[ir.Node]:
    inside = made_inside(body)
    return [node for node in body.op.scope.nodes if _is_product(node, inside)]


def _is_product(node: ir.Node, inside: set[Value]) -> bool:
    """Whether a node multiplies one matrix of rows by a large outer matrix."""
    if node.op_type not in PRODUCTS or len(node.inputs) != 2 or None in node.inputs:
        return False
    x, matrix = node.inputs
    assert x is not None
    assert matrix is not None
    if x not in inside or matrix in inside or matrix.dtype != ir.DataType.FLOAT or matrix.shape is None:
        return False
    if is_constant(matrix):
        return False
    sizes = [dim for dim in matrix.shape if isinstance(dim, int)]
    if len(matrix.shape) != 2 or len(sizes) != 2 or math.prod(sizes) < _MIN_ELEMENTS:
        return False
    if node.op_type == "Gemm":
        attributes = node.attributes
        return attributes.get_int("transA", 0) == 0 and attributes.get_float("alpha", 1.0) == 1.0
    return x.shape is not None and 2 <= len(x.shape) <= 3


def _replace(op: Op, body: Body, node: ir.Node, suited: Value | None) -> None:
    x, matrix = node.inputs
    assert x is not None
    assert matrix is not None
    turned = node.op_type == "Gemm" and node.attributes.get_int("transB", 0) == 1
    left = matrix if turned else transpose_matrix(op, matrix)
    right = transpose_matrix(op, matrix) if turned else matrix
    replace_node(
        body,
        node,
        lambda op: _emit(
            op, suited, lambda inside: _transposed(inside, x, left), lambda inside: inside.emit("MatMul", x, right)
        ),
    )


def _emit(op: Op, suited: Value | None, then: Callable[[Op], Value], otherwise: Callable[[Op], Value]) -> Value:
    if suited is None:
        return then(op)
    return branch(op, suited, lambda inside: [then(inside)], lambda inside: [otherwise(inside)])[0]


def _transposed(op: Op, x: Value, left: Value) -> Value:
    perm = [1, 0] if op.rank(x) == 2 else [0, 2, 1]
    return op.emit("Transpose", op.emit("MatMul", left, op.emit("Transpose", x, perm=perm)), perm=perm)
