"""Ranks that operators usually have, for inputs of which nothing else is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.input_shapes.known_shapes import KnownShapes
from caffe2_frontend.input_shapes.structure_rules import joined_axis

Assumption = Callable[[OpView, KnownShapes], None]

_IMAGE: Final = 4
_MATRIX: Final = 2


def _images(op: OpView, shapes: KnownShapes) -> None:
    shapes.set_rank(op.inputs[0], _IMAGE)


def _matrices(op: OpView, shapes: KnownShapes) -> None:
    for name, argument in zip(op.inputs, ("axis_a", "axis_b"), strict=False):  # of MatMul
        axis = op.args.integer(argument, default=1)
        shapes.set_rank(name, max(axis + 1, -axis, _MATRIX))


def _first_is_matrix(op: OpView, shapes: KnownShapes) -> None:
    axis = op.args.integer("axis", default=-1)  # of TopK
    shapes.set_rank(op.inputs[0], max(axis + 1, -axis, _MATRIX))


def _batches(op: OpView, shapes: KnownShapes) -> None:
    for name in op.inputs[:2]:
        shapes.set_rank(name, 3)


def _up_to_axis(op: OpView, shapes: KnownShapes) -> None:
    """The first operand has the dims before ``axis``, and one from there on."""
    axis = op.args.integer("axis", default=1)
    least = _MATRIX if axis < 0 or op.type in ("LayerNorm", "RMSNorm") else 1
    shapes.set_rank(op.inputs[0], max(axis + 1, -axis, least))
    for name in op.inputs[1:3] if op.type in ("LayerNorm", "RMSNorm", "ElementwiseLinear") else ():
        shapes.set_rank(name, 1)


def _joined(op: OpView, shapes: KnownShapes) -> None:
    axis = joined_axis(op)
    added = bool(op.args.integer("add_axis", default=0))
    rank = max(axis + 1 if axis >= 0 else -axis, _MATRIX + added) - added
    for name in op.inputs if op.type != "Split" else op.inputs[:1]:
        shapes.set_rank(name, rank)


def _equal_ranks(op: OpView, shapes: KnownShapes) -> None:
    """Operands that could be broadcast have the rank of the result, or of each other; one per channel is a vector."""
    if len(op.inputs) < 2:
        return
    a, b = op.inputs[:2]
    if op.args.integer("broadcast", default=0):
        shapes.set_rank(b, 1 if shapes.rank(a) is not None else None)
    else:
        shapes.relate_ranks(op.outputs[0], a, b)


def _lookup(op: OpView, shapes: KnownShapes) -> None:
    """A table of rows, and a vector of indices."""
    if not op.args.integer("axis", default=0):
        shapes.set_rank(op.inputs[0], _MATRIX)
        table, result = shapes.rank(op.inputs[0]), shapes.rank(op.outputs[0])
        rank = 1 if table is None or result is None else result - table + 1
        shapes.set_rank(op.inputs[1] if len(op.inputs) > 1 else "", rank)


def _second_is_vector(op: OpView, shapes: KnownShapes) -> None:
    """The slopes of the channels, or a number for each index."""
    shapes.set_rank(op.inputs[1] if len(op.inputs) > 1 else "", 1)


def _reduced(op: OpView, shapes: KnownShapes) -> None:
    shapes.set_rank(op.inputs[0], max(op.args.integer("num_reduce_dim", default=1) + 1, _MATRIX))


def _labels(op: OpView, shapes: KnownShapes) -> None:
    """A class for each row, unless the labels are probabilities."""
    if not op.args.integer("label_prob", default=0):
        shapes.set_rank(op.inputs[1] if len(op.inputs) > 1 else "", 1)


_BINARY: Final = ("Add", "And", "Div", "EQ", "GE", "GT", "LE", "LT", "Mul", "NE", "Or", "Sub", "Xor")
ASSUMPTIONS: Final[Mapping[str, Assumption]] = {
    **dict.fromkeys(_BINARY, _equal_ranks),
    **dict.fromkeys(
        ["MaxPool", "AveragePool", "LpPool", "Int8MaxPool", "Int8AveragePool", "NCHW2NHWC", "NHWC2NCHW", "SpatialBN",
         "InstanceNorm", "GroupNorm", "AffineChannel", "ChannelShuffle", "ResizeNearest", "Int8ResizeNearest"],
        _images,
    ),
    **dict.fromkeys(["MatMul", "DotProduct", "CosineSimilarity", "SquaredL2Distance", "L1Distance"], _matrices),
    **dict.fromkeys(["TopK", "LengthsSum", "LengthsMean", "LengthsMax", "BatchBoxCox"], _first_is_matrix),
    "BatchMatMul": _batches,
    **dict.fromkeys(
        ["Softmax", "LogSoftmax", "LayerNorm", "RMSNorm", "ElementwiseLinear", "FbFCPacked", "Int8FC"], _up_to_axis
    ),
    **dict.fromkeys(["Concat", "DepthConcat", "Split"], _joined),
    "Gather": _lookup,
    **dict.fromkeys(["SoftmaxWithLoss", "LabelCrossEntropy"], _labels),
    **dict.fromkeys(
        ["SparseLengthsSum", "SparseLengthsMean", "SparseLengthsMax", "SparseLengthsWeightedSum",
         "SparseLengthsWeightedMean", "SparseLengthsPositionalWeightedSum"],
        _first_is_matrix,
    ),
    **dict.fromkeys(
        ["ReduceFrontSum", "ReduceFrontMean", "ReduceFrontMax", "ReduceBackSum", "ReduceBackMean", "ReduceBackMax"],
        _reduced,
    ),
    **dict.fromkeys(["PRelu", "SparseToDenseMask"], _second_is_vector),
}  # fmt: skip
