"""What real Caffe2 requires of operands when an operator runs, and onnxruntime's kernels do not.

A rule looks at some operands of an operator, and says what is wrong with them. Rules of shapes cost nothing; those of
contents read ids, labels and lengths, which are small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from caffe2_bridge.netdef.views import OpView

# From the operator and the operands that are known, the others None: what is wrong; None if nothing is.
Rule = Callable[[OpView, Sequence[Any]], "str | None"]


class OperandRule(NamedTuple):
    """A rule, the indices of the operands that it needs, and of others that it uses if they are known.

    ``operands``: all if it is empty. ``reads``: the first operand's contents are read, so that it must be on the host.
    """

    rule: Rule
    operands: tuple[int, ...]
    optional: tuple[int, ...] = ()
    reads: bool = False


def _equal_shapes(_: OpView, operands: Sequence[Any]) -> str | None:
    first, *others = (operand.shape for operand in operands)
    different = next((shape for shape in others if shape != first), None)
    return None if different is None else f"the shapes {list(first)} and {list(different)} of its inputs must be equal"


def _equal_ranks_only(op: OpView, operands: Sequence[Any]) -> str | None:
    x, y = operands
    return _equal_shapes(op, operands) if len(x.shape) == len(y.shape) else None


def _same_rows(_: OpView, operands: Sequence[Any]) -> str | None:
    data, rows = (operand.shape for operand in operands)
    return None if data[:1] == rows[:1] else f"its inputs must have as many rows, not {list(data)} and {list(rows)}"


def _bias(op: OpView, operands: Sequence[Any]) -> str | None:
    weights, bias = operands
    if len(weights.shape) != 2 or op.args.integer("axis_w", default=1) != 1:
        return None
    size = weights.shape[1 if op.type == "FCTransposed" else 0]
    return None if prod(bias.shape) == size else f"the bias must have {size} elements, not {prod(bias.shape)}"


def _linear(op: OpView, operands: Sequence[Any]) -> str | None:
    x, weights, bias = (operand.shape for operand in operands)
    size = prod(x[op.args.integer("axis", default=1) :])
    if weights == bias == (size,):
        return None
    return f"the weights and the bias must have the shape [{size}], not {list(weights)} and {list(bias)}"


def _equal_parts(op: OpView, operands: Sequence[Any]) -> str | None:
    """Return what is wrong with an axis that is split without sizes."""
    shape, count = operands[0].shape, len(op.outputs)
    axis = op.args.integer("axis", default=3 if op.args.text("order", default="") == "NHWC" else 1)
    if len(op.inputs) > 1 or "split" in op.args or not -len(shape) <= axis < len(shape) or shape[axis] % count == 0:
        return None
    return f"the size of axis {axis} ({shape[axis]}) must be a multiple of the number of outputs ({count})"


def _indices(axis: int = 0) -> Rule:
    def rule(op: OpView, operands: Sequence[Any]) -> str | None:
        ids, table = operands[0], operands[1] if len(operands) > 1 else None
        limit = None if table is None or len(table.shape) <= axis else table.shape[axis]
        if limit is None and "num_segments" in op.args:
            limit = op.args.integer("num_segments")
        return _outside(ids, limit, "index")

    return rule


def _labels(op: OpView, operands: Sequence[Any]) -> str | None:
    labels, scores = operands
    if op.args.flag("label_prob", default=False):
        return None
    if scores is not None and scores.shape:
        axis = op.args.integer("axis", default=1) if len(scores.shape) > 1 else 0  # a vector is one row
        rows = prod(scores.shape[:axis])
        if prod(labels.shape) != rows or prod(labels.shape[: axis or None]) != rows:
            return f"the labels must be one for each of {rows} rows, not of shape {list(labels.shape)}"
        return _outside(labels, prod(scores.shape[axis:]), "label")
    return _outside(labels, None, "label")


def _segments(_: OpView, operands: Sequence[Any]) -> str | None:
    ids = operands[0].reshape(-1)
    if not ids.size:
        return None
    steps = np.diff(ids)
    if ids[0] != 0 or (steps.size and (steps.min() < 0 or steps.max() > 1)):
        return "segment ids must start at 0, and each must be that before it or the next number"
    return None


def _sorted(_: OpView, operands: Sequence[Any]) -> str | None:
    steps = np.diff(operands[0].reshape(-1))
    return "segment ids must be sorted" if steps.size and steps.min() < 0 else None


def _lengths(op: OpView, operands: Sequence[Any]) -> str | None:
    lengths, data = operands
    if (outside := _outside(lengths, None, "length")) is not None:
        return outside
    expected = len(lengths) if op.type == "LengthsTile" else int(lengths.sum())
    rows = data.shape[0] if data.shape else 0
    return None if expected == rows else f"the lengths are for {expected} rows, and the data has {rows}"


def _outside(ids: Any, limit: int | None, what: str) -> str | None:
    """Return what is wrong with numbers of which one is negative, or not below a limit."""
    if not ids.size or ids.dtype.kind not in "iu":
        return None
    lowest = int(ids.min())
    if lowest < 0:
        return f"{what} {lowest} is negative"
    if limit is not None and (highest := int(ids.max())) >= limit:
        return f"{what} {highest} is not below {limit}"
    return None


def _each(types: str, rule: OperandRule) -> dict[str, list[OperandRule]]:
    return {op_type: [rule] for op_type in types.split()}


_SEGMENTS: Final = "Sum Mean WeightedSum RangeSum RangeMean RangeMax RangeLogSumExp RangeLogMeanExp"

# By operator type.
RULES: Final[Mapping[str, list[OperandRule]]] = {
    **_each(
        "CosineSimilarity DotProduct L1Distance SigmoidCrossEntropyWithLogits SquaredL2Distance "
        "SquaredL2DistanceGradient",
        OperandRule(_equal_shapes, (0, 1)),
    ),
    **_each("SigmoidCrossEntropyWithLogitsGradient Where", OperandRule(_equal_shapes, (1, 2))),
    **_each("WeightedSigmoidCrossEntropyWithLogits", OperandRule(_equal_shapes, (0, 1, 2))),
    **_each("Mean Sum", OperandRule(_equal_shapes, ())),
    **_each("CrossEntropy", OperandRule(_equal_ranks_only, (0, 1))),
    **_each("Accuracy BooleanMask", OperandRule(_same_rows, (0, 1))),
    **_each("FC FCTransposed", OperandRule(_bias, (1, 2))),
    **_each("DepthSplit Split", OperandRule(_equal_parts, (0,))),
    **_each("ElementwiseLinear", OperandRule(_linear, (0, 1, 2))),
    **_each("SparseLengthsSum SparseLengthsMean SparseLengthsMax", OperandRule(_indices(), (1,), (0,), reads=True)),
    **_each(
        "SparseLengthsPositionalWeightedSum SparseLengthsWeightedSum", OperandRule(_indices(), (2,), (0,), reads=True)
    ),
    **_each("BatchGather", OperandRule(_indices(1), (1,), (0,), reads=True)),
    **_each("SparseToDense", OperandRule(_indices(), (0,), reads=True)),
    **_each("ScatterWeightedSum", OperandRule(_indices(), (2,), (0,), reads=True)),
    **_each("UnsortedSegmentSum UnsortedSegmentMean", OperandRule(_indices(), (1,), reads=True)),
    **_each(
        "LabelCrossEntropy SoftmaxWithLoss SoftmaxWithLossGradient", OperandRule(_labels, (1,), (0,), reads=True)
    ),
    **_each("LengthsTile", OperandRule(_lengths, (1, 0), reads=True)),
    **_each("PackSegments", OperandRule(_lengths, (0, 1), reads=True)),
    **_each("SegmentIdsToLengths SegmentIdsToRanges", OperandRule(_sorted, (0,), reads=True)),
    **{
        f"SortedSegment{reducer}": [OperandRule(_segments, (2 if reducer == "WeightedSum" else 1,), reads=True)]
        for reducer in _SEGMENTS.split()
    },
    **{
        f"Sparse{kind}Segment{reducer}": [
            OperandRule(_indices(), (1,), (0,), reads=True),
            OperandRule(_segments if kind == "Sorted" else _indices(), (2,), reads=True),
        ]
        for kind in ("Sorted", "Unsorted")
        for reducer in ("Sum", "Mean")
    },
}  # fmt: skip
