"""Rules of matrix products and of operators over rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from caffe2_bridge.bounds import MAX_RANK
from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.input_shapes.known_shapes import KnownShapes


def _layer(op: OpView, shapes: KnownShapes) -> None:
    """FC: Y has the dims of X before ``axis``, then a column for each row of W; X has the columns of W."""
    if len(op.inputs) < 3:
        return
    (x, w, bias), y = op.inputs[:3], op.outputs[0]
    axis, axis_w = op.args.integer("axis", default=1), op.args.integer("axis_w", default=1)
    shapes.set_rank(bias, 1)
    if not 0 <= axis < MAX_RANK or axis_w < 0:
        return
    shapes.set_rank(y, axis + 1)
    for i in range(axis):
        shapes.relate_sizes((x, i), (y, i))
    rows, columns = _layer_sizes(op, shapes.shape(w), axis_w)
    for name in (y, bias):
        shapes.set_size(name, axis if name == y else 0, rows)
    if shapes.rank(x) == axis + 1:
        shapes.set_size(x, axis, columns)
    shapes.relate_sizes((bias, 0), (y, axis))
    if shapes.rank(w) == 2 and axis_w == 1:
        first, second = (1, 0) if op.type == "FCTransposed" else (0, 1)
        shapes.relate_sizes((w, first), (bias, 0))
        if shapes.rank(x) == axis + 1:
            shapes.relate_sizes((w, second), (x, axis))


def _layer_sizes(op: OpView, weight: tuple[object, ...] | None, axis: int) -> tuple[int | None, int | None]:
    """The rows and columns of the weight of an FC as a matrix; None where they are unknown."""
    if weight is None:
        return None, None
    parts = weight[:axis], weight[axis:]
    first, second = (
        prod(d for d in p if isinstance(d, int)) if all(isinstance(d, int) for d in p) else None for p in parts
    )
    return (second, first) if op.type == "FCTransposed" else (first, second)


def _matmul(op: OpView, shapes: KnownShapes) -> None:
    """MatMul: Y is a matrix, with the rows of A and the columns of B."""
    if len(op.inputs) < 2:
        return
    (a, b), y = op.inputs[:2], op.outputs[0]
    shapes.set_rank(y, 2)
    if shapes.rank(a) == shapes.rank(b) == 2:
        _relate_product(op, shapes, (a, b, y), 2)


def _relate_product(op: OpView, shapes: KnownShapes, names: tuple[str, str, str], rank: int) -> None:
    a, b, y = names
    rows_a = rank - 1 if op.args.integer("trans_a", default=0) else rank - 2
    rows_b = rank - 1 if op.args.integer("trans_b", default=0) else rank - 2
    inner_a, columns_b = 2 * rank - 3 - rows_a, 2 * rank - 3 - rows_b
    shapes.relate_sizes((a, inner_a), (b, rows_b))
    shapes.relate_sizes((a, rows_a), (y, rank - 2))
    shapes.relate_sizes((b, columns_b), (y, rank - 1))


def _batch_matmul(op: OpView, shapes: KnownShapes) -> None:
    """BatchMatMul: matrix products over the leading dims, which are broadcast on request."""
    if len(op.inputs) < 2 or op.args.integer("broadcast", default=0):
        return
    (a, b), y = op.inputs[:2], op.outputs[0]
    rank = shapes.relate_ranks(a, b, y)
    if rank is not None and rank > 2:
        for axis in range(rank - 2):
            shapes.relate_sizes((a, axis), (b, axis), (y, axis))
        _relate_product(op, shapes, (a, b, y), rank)


def _rowwise(op: OpView, shapes: KnownShapes) -> None:
    """DotProduct and distances: two operands of one shape, and a vector of results."""
    if len(op.inputs) > 1:
        shapes.relate_shapes(*op.inputs[:2])
    shapes.set_rank(op.outputs[0], 1)


def _normalized(op: OpView, shapes: KnownShapes) -> None:
    """LayerNorm, RMSNorm, ElementwiseLinear: weights over the dims of X from ``axis`` on; Y is like X."""
    shapes.relate_shapes(op.inputs[0], op.outputs[0])
    if op.type == "ElementwiseLinear":
        shapes.relate_sizes(*((name, 0) for name in op.inputs[1:3]))
    else:
        shapes.relate_shapes(*op.inputs[1:3])


RULES: Final[Mapping[str, Callable[[OpView, KnownShapes], None]]] = {
    **dict.fromkeys(["FC", "FCTransposed", "FbFCPacked", "Int8FC"], _layer),
    "MatMul": _matmul,
    "BatchMatMul": _batch_matmul,
    **dict.fromkeys(["DotProduct", "CosineSimilarity", "SquaredL2Distance", "L1Distance"], _rowwise),
    **dict.fromkeys(["LayerNorm", "RMSNorm", "ElementwiseLinear"], _normalized),
}
