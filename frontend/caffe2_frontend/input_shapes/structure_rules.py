"""Rules of elementwise operators, and of those that join, split and reorder dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.input_shapes.known_shapes import KnownShapes


def _first_to_first(op: OpView, shapes: KnownShapes) -> None:
    shapes.relate_shapes(op.inputs[0], op.outputs[0])


def _same_rank(op: OpView, shapes: KnownShapes) -> None:
    shapes.relate_ranks(op.inputs[0], op.outputs[0])


def _all_alike(op: OpView, shapes: KnownShapes) -> None:
    shapes.relate_shapes(*op.inputs, op.outputs[0])


def _binary(op: OpView, shapes: KnownShapes) -> None:
    """With ``broadcast`` the result is like the first operand; without, ranks follow if both operands have one."""
    if len(op.inputs) < 2:
        return
    (a, b), y = op.inputs[:2], op.outputs[0]
    if op.args.integer("broadcast", default=0):
        shapes.relate_shapes(a, y)
        axis = op.args.integer("axis", default=-1)
        for i in range(shapes.rank(b) or 0) if axis >= 0 and shapes.size(b, 0) != 1 else ():
            shapes.set_size(b, i, shapes.size(a, axis + i))
        return
    ranks = shapes.rank(a), shapes.rank(b)
    if ranks[0] is not None and ranks[1] is not None:
        shapes.set_rank(y, max(ranks[0], ranks[1]))
    rank = shapes.rank(y)
    if rank is not None:
        for one, other in ((a, b), (b, a)):
            known = shapes.rank(one)
            if known is not None and known < rank:
                shapes.set_rank(other, rank)


def _concat(op: OpView, shapes: KnownShapes) -> None:
    """All operands have one shape but for the dim ``axis``; with ``add_axis`` the result has one dim more."""
    y, added = op.outputs[0], bool(op.args.integer("add_axis", default=0))
    shapes.set_rank(op.outputs[1] if len(op.outputs) > 1 else "", 1)
    if added:
        rank = shapes.rank(y)
        rank = shapes.relate_ranks(*op.inputs, rank=None if rank is None else rank - 1)
        shapes.set_rank(y, None if rank is None else rank + 1)
        shapes.relate_shapes(*op.inputs)
        return
    axis = joined_axis(op)
    shapes.relate_shapes(*op.inputs, y, but=axis)
    rank = shapes.rank(y)
    if rank is not None and -rank <= axis < rank:
        _relate_sum(shapes, y, op.inputs, axis)


def _split(op: OpView, shapes: KnownShapes) -> None:
    axis = joined_axis(op)
    shapes.relate_shapes(op.inputs[0], *op.outputs, but=axis)


def joined_axis(op: OpView) -> int:
    """Return the axis along which Concat, DepthConcat and Split work."""
    default = 3 if op.args.text("order", default="NCHW") == "NHWC" else 1
    return op.args.integer("axis", default=default)


def _relate_sum(shapes: KnownShapes, whole: str, parts: tuple[str, ...], axis: int) -> None:
    """The size of the whole is the sum of those of its parts; one unknown among them follows."""
    sizes = {name: shapes.size(name, axis) for name in parts}
    unknown = [name for name, size in sizes.items() if size is None]
    known = sum(sizes[name] or 0 for name in parts)
    total = shapes.size(whole, axis)
    if not unknown:
        shapes.set_size(whole, axis, known)
    elif len(unknown) == 1 and parts.count(unknown[0]) == 1 and total is not None and total > known:
        shapes.set_size(unknown[0], axis, total - known)


def _transpose(op: OpView, shapes: KnownShapes) -> None:
    """The result has the dims of the operand in the order of ``axes``, by default reversed."""
    x, y = op.inputs[0], op.outputs[0]
    axes = op.args.integers("axes", default=())
    rank = shapes.relate_ranks(x, y, rank=len(axes) or None)
    if rank is not None:
        order = axes or tuple(reversed(range(rank)))
        for i, axis in enumerate(order):
            if 0 <= axis < rank:
                shapes.relate_sizes((x, axis), (y, i))


def _reshape(op: OpView, shapes: KnownShapes) -> None:
    wanted = op.args.integers("shape", default=())
    if wanted:
        shapes.set_shape(op.outputs[0], [size if size > 0 else None for size in wanted])
        for axis, size in enumerate(wanted):
            if size == 0:
                shapes.relate_sizes((op.inputs[0], axis), (op.outputs[0], axis))


def _flatten(op: OpView, shapes: KnownShapes) -> None:
    shapes.set_rank(op.outputs[0], 1 if op.type == "FlattenToVec" else 2)


def _fixed(op: OpView, shapes: KnownShapes) -> None:
    """Operators whose results have the same ranks always."""
    for name, rank in zip(op.outputs, _RANKS[op.type], strict=False):
        shapes.set_rank(name, rank)


def _expand(op: OpView, shapes: KnownShapes) -> None:
    """ExpandDims and Squeeze: dims of size 1 are added or removed."""
    small, large = (op.inputs[0], op.outputs[0]) if op.type == "ExpandDims" else (op.outputs[0], op.inputs[0])
    count = len(set(op.args.integers("dims", default=())))
    rank = shapes.rank(small)
    shapes.set_rank(large, None if rank is None else rank + count)
    rank = shapes.rank(large)
    shapes.set_rank(small, None if rank is None else rank - count)


def _reduce(op: OpView, shapes: KnownShapes) -> None:
    """ReduceFront, ReduceBack: the first or the last dims are reduced."""
    x, y = op.inputs[0], op.outputs[0]
    count = op.args.integer("num_reduce_dim", default=1)
    rank = shapes.rank(x)
    shapes.set_rank(y, None if rank is None else rank - count)
    rank = shapes.rank(y)
    shapes.set_rank(x, None if rank is None else rank + count)


def _gather(op: OpView, shapes: KnownShapes) -> None:
    """Gather along axis 0: the dims of the indices replace the first of the data."""
    if len(op.inputs) < 2 or op.args.integer("axis", default=0):
        return
    (data, indices), y = op.inputs[:2], op.outputs[0]
    ranks = shapes.rank(data), shapes.rank(indices), shapes.rank(y)
    if ranks[0] is not None and ranks[1] is not None:
        shapes.set_rank(y, ranks[0] + ranks[1] - 1)
    elif ranks[2] is not None and ranks[1] is not None:
        shapes.set_rank(data, ranks[2] - ranks[1] + 1)
    elif ranks[2] is not None and ranks[0] is not None:
        shapes.set_rank(indices, ranks[2] - ranks[0] + 1)


def _segments(op: OpView, shapes: KnownShapes) -> None:
    """Reductions of segments of rows: the result has the rank of the data, and its dims from 1 on."""
    shapes.relate_shapes(op.inputs[0], op.outputs[0], but=0)


def _masked(op: OpView, shapes: KnownShapes) -> None:
    """SparseToDenseMask: a default without the first dim of the values; a row of values for each id and segment."""
    if len(op.inputs) < 3:
        return
    values, default, y = op.inputs[1], op.inputs[2], op.outputs[0]
    segments = int(len(op.inputs) > 3)
    for name, more, base in (
        (default, -1, values),
        (y, segments, values),
        (values, 1, default),
        (values, -segments, y),
    ):
        rank = shapes.rank(base)
        shapes.set_rank(name, None if rank is None else rank + more)


def _reversed(op: OpView, shapes: KnownShapes) -> None:
    """Rows over time of a batch have three dims, reversed or not."""
    for name in (op.inputs[0], op.outputs[0]):
        shapes.set_rank(name, 3)


def _recurrent(op: OpView, shapes: KnownShapes) -> None:
    """The rows of states over time, and their last ones, have three dims."""
    for name in op.outputs[:4] if op.type == "RecurrentNetwork" else ():
        shapes.set_rank(name, 3)


_ELEMENTWISE: Final = (
    "Abs", "Acos", "Alias", "AliasWithName", "Asin", "Atan", "Bucketize", "Cast", "Cbrt", "Ceil", "ChannelShuffle",
    "Clip", "Copy", "CopyCPUToGPU", "CopyFromCPUInput", "CopyGPUToCPU", "Cos", "Cosh", "Cube", "Dropout", "Elu",
    "EnsureClipped", "EnsureCPUOutput", "EnsureDense", "Erf", "Exp", "FloatToHalf", "Floor", "Gelu", "HalfToFloat",
    "HardSigmoid", "Int8Dequantize", "Int8LeakyRelu", "Int8Quantize", "Int8Relu", "Int8Sigmoid", "Int8Softmax", "LRN",
    "LeakyRelu", "Log", "Log1p", "LogSoftmax", "Logit", "Mish", "Mod", "NanCheck", "Negative", "Normalize",
    "NormalizeL1", "Not", "PRelu", "Pow", "Reciprocal", "Relu", "ReluN", "ReplaceNaN", "Round", "Rsqrt", "Scale",
    "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqr", "Sqrt", "StopGradient",
    "StumpFunc", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
_BINARY: Final = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "EQ", "GE", "GT", "LE", "LT", "Mul", "NE", "Or",
    "Sub", "Xor",
)  # fmt: skip
_RANKS: Final[Mapping[str, tuple[int, ...]]] = {
    "BatchOneHot": (2,),
    "GatherRanges": (1, 1),
    "LengthsRangeFill": (1,),
    "LengthsToRanges": (2,),
    "LengthsToSegmentIds": (1,),
    "OneHot": (2,),
    "SegmentIdsToLengths": (1,),
    "Shape": (1,),
}
RULES: Final[Mapping[str, Callable[[OpView, KnownShapes], None]]] = {
    **dict.fromkeys(_ELEMENTWISE, _first_to_first),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(["Sum", "SumRelu", "Mean", "Max", "Min", "Int8Add", "Int8Sum", "Int8SumRelu"], _all_alike),
    **dict.fromkeys(["Slice", "Tile", "TopK"], _same_rank),
    **dict.fromkeys(["Concat", "DepthConcat"], _concat),
    "Split": _split,
    "Transpose": _transpose,
    "Reshape": _reshape,
    **dict.fromkeys(["Flatten", "FlattenToVec"], _flatten),
    **dict.fromkeys(["ExpandDims", "Squeeze"], _expand),
    **dict.fromkeys(
        ["ReduceFrontSum", "ReduceFrontMean", "ReduceFrontMax", "ReduceBackSum", "ReduceBackMean", "ReduceBackMax"],
        _reduce,
    ),
    "Gather": _gather,
    **dict.fromkeys(
        ["LengthsSum", "LengthsMean", "LengthsMax", "SparseLengthsSum", "SparseLengthsMean", "SparseLengthsMax",
         "SparseLengthsWeightedSum", "SparseLengthsWeightedMean"],
        _segments,
    ),
    "SparseToDenseMask": _masked,
    **dict.fromkeys(_RANKS, _fixed),
    "RecurrentNetwork": _recurrent,
    "ReversePackedSegs": _reversed,
}  # fmt: skip
