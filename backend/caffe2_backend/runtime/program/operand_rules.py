"""What real Caffe2 requires of operands when an operator runs, and onnxruntime's kernels do not, by operator type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from caffe2_backend.runtime.program import operand_contents as contents
from caffe2_backend.runtime.program import operand_shapes as shapes
from caffe2_bridge.netdef.views import OpView

# From the operator and the operands that are known, the others None: what is wrong; None if nothing is.
Rule = Callable[[OpView, Sequence[Any]], "str | None"]


class OperandRule(NamedTuple):
    """A rule, the indices of the operands that it needs, and of others that it uses if they are known.

    ``operands``: all if it is empty. ``reads``: the first operand's contents are read, so that it must be on the host.
    """

    rule: Rule
    operands: tuple[int, ...] = ()
    optional: tuple[int, ...] = ()
    reads: bool = False


def _reads(rule: Rule, operand: int, *optional: int) -> OperandRule:
    """Return a rule that reads the contents of an operand, and uses others if they are known."""
    return OperandRule(rule, (operand,), optional, reads=True)


_REDUCERS: Final = "Sum Mean RangeSum RangeMean RangeMax RangeLogSumExp RangeLogMeanExp"
_POOLED: Final = "Sum Mean"
_FUSED_BITS: Final = (8, 4, 2)

# The types that share rules, and the rules.
_TABLE: Final[Sequence[tuple[str, Sequence[OperandRule]]]] = [
    # Elementwise
    ("Add Sub Mul Div EQ NE LT LE GT GE And Or Xor BitwiseAnd BitwiseOr BitwiseXor",
     [OperandRule(shapes.broadcast, (0, 1))]),
    ("Max Mean Min Sum SumInt SumRelu", [OperandRule(shapes.equal_shapes)]),
    ("Where", [OperandRule(shapes.equal_shapes, (1, 2)), OperandRule(shapes.condition, (0, 1))]),
    ("Conditional", [OperandRule(shapes.same_rows, (0, 1)), OperandRule(shapes.equal_shapes, (1, 2))]),
    ("SquareRootDivide", [OperandRule(shapes.same_rows, (0, 1))]),
    # Layers
    ("FC FCTransposed", [OperandRule(shapes.bias, (1, 2))]),
    ("ElementwiseLinear", [OperandRule(shapes.linear, (0, 1, 2))]),
    ("DepthSplit Split", [OperandRule(shapes.equal_parts, (0,))]),
    # Losses and distances
    ("CosineSimilarity DotProduct L1Distance SquaredL2Distance SquaredL2DistanceGradient",
     [OperandRule(shapes.equal_shapes, (0, 1))]),
    ("SigmoidCrossEntropyWithLogits", [OperandRule(shapes.equal_shapes, (0, 1))]),
    ("SigmoidCrossEntropyWithLogitsGradient", [OperandRule(shapes.equal_shapes, (1, 2))]),
    ("WeightedSigmoidCrossEntropyWithLogits", [OperandRule(shapes.equal_shapes, (0, 1, 2))]),
    ("BernoulliJSD CosineEmbeddingCriterion MarginRankingCriterion", [OperandRule(shapes.equal_sizes)]),
    ("DotProductWithPadding", [OperandRule(shapes.same_rows, (0, 1))]),
    ("CrossEntropy", [OperandRule(shapes.equal_shapes_of_a_rank, (0, 1)), _reads(contents.probabilities, 1)]),
    ("LabelCrossEntropy SoftmaxWithLoss SoftmaxWithLossGradient", [_reads(contents.labels, 1, 0)]),
    ("SpatialSoftmaxWithLoss", [_reads(contents.labels_of_pixels, 1, 0)]),
    ("HSoftmax", [_reads(contents.indices(what="label"), 3)]),
    ("PairWiseLoss", [OperandRule(shapes.same_rows, (0, 1)), _reads(contents.lengths, 2, 0)]),
    ("LambdaRankNdcg", [OperandRule(shapes.equal_sizes, (0, 1)), _reads(contents.lengths, 2, 0)]),
    ("Accuracy BooleanMask", [OperandRule(shapes.same_rows, (0, 1))]),
    # Rows of tables
    ("SparseLengthsSum SparseLengthsMean SparseLengthsMax", [_reads(contents.lookups, 1, 0, 2)]),
    ("SparseLengthsPositionalWeightedSum", [_reads(contents.lookups, 2, 0, 3)]),
    ("SparseLengthsWeightedSum", [_reads(contents.lookups, 2, 0, 3), OperandRule(shapes.same_rows, (1, 2))]),
    ("SparseLengthsSum8BitsRowwise SparseLengthsMean8BitsRowwise",
     [_reads(contents.lookups, 1, 0, 2), OperandRule(shapes.same_rows, (0, 3))]),
    ("SparseLengthsWeightedSum8BitsRowwise SparseLengthsWeightedMean8BitsRowwise",
     [_reads(contents.lookups, 2, 0, 3), OperandRule(shapes.same_rows, (0, 4))]),
    *((f"SparseLengths{reducer}Fused{bits}BitRowwise", [_reads(contents.lookups, 1, 0, 2)])
      for reducer in _POOLED.split() for bits in _FUSED_BITS),
    *((f"SparseLengthsWeightedSumFused{bits}BitRowwise",
       [_reads(contents.lookups, 2, 0, 3), OperandRule(shapes.same_rows, (1, 2))]) for bits in _FUSED_BITS),
    ("SparseLengthsSumSparseLookup", [_reads(contents.lookups, 0, 2, 1)]),
    ("BatchGather", [_reads(contents.indices(1), 1, 0)]),
    ("ScatterWeightedSum", [_reads(contents.indices(), 2, 0)]),
    # Sparse features
    ("SparseToDense", [_reads(contents.indices(), 0)]),
    ("SparseToDenseMask", [OperandRule(shapes.same_rows, (0, 1)), OperandRule(shapes.element_of_rows, (1, 2))]),
    ("BatchSparseToDense", [_reads(contents.lengths, 0, 1)]),
    ("BatchDenseToSparse", [_reads(contents.lengths, 0, 1), _reads(contents.indices(1), 1, 2),
                            OperandRule(shapes.same_rows, (0, 2))]),
    ("BatchOneHot", [_reads(contents.lengths, 1, 2, 0)]),
    ("BatchBucketOneHot", [_reads(contents.lengths, 1, 2, 0)]),
    ("BatchBucketize", [_reads(contents.lengths, 3, 2), OperandRule(shapes.equal_sizes, (1, 3))]),
    ("Percentile", [_reads(contents.lengths, 2, 1, 0)]),
    ("KeySplit", [_reads(contents.keys, 0)]),
    ("RemoveDataBlocks", [_reads(contents.indices(), 1)]),
    ("GatherRangesToDense", [OperandRule(shapes.ranges, (1,))]),
    ("MergeIdLists", [OperandRule(shapes.equal_sizes_of_every_second)]),
    ("WeightedSample", [OperandRule(shapes.equal_shapes, (0, 1))]),
    # Segments by lengths
    ("LengthsSum LengthsMean LengthsMax LengthsGather LengthsPad LengthsTile SparseDropoutWithReplacement AddPadding",
     [_reads(contents.lengths, 1, 0)]),
    ("LengthsWeightedSum", [_reads(contents.lengths, 2, 0), OperandRule(shapes.same_rows, (0, 1))]),
    ("BooleanMaskLengths PackSegments", [_reads(contents.lengths, 0, 1)]),
    ("UnpackSegments", [OperandRule(shapes.same_rows, (0, 1)), OperandRule(shapes.packed, (1,))]),
    # Segments by ids
    ("SegmentIdsToLengths SegmentIdsToRanges", [_reads(contents.sorted_ids, 0)]),
    *((f"SortedSegment{reducer}", [_reads(contents.segments, 1), OperandRule(shapes.same_rows, (0, 1))])
      for reducer in _REDUCERS.split()),
    *((f"UnsortedSegment{reducer}", [_reads(contents.indices(), 1), OperandRule(shapes.same_rows, (0, 1))])
      for reducer in _POOLED.split()),
    *((f"SparseSortedSegment{reducer}",
       [_reads(contents.indices(), 1, 0), _reads(contents.segments, 2), OperandRule(shapes.same_rows, (1, 2))])
      for reducer in _POOLED.split()),
    *((f"SparseUnsortedSegment{reducer}",
       [_reads(contents.indices(), 1, 0), _reads(contents.indices(), 2), OperandRule(shapes.same_rows, (1, 2))])
      for reducer in _POOLED.split()),
    ("SortedSegmentWeightedSum", [_reads(contents.segments, 2), OperandRule(shapes.same_rows, (0, 1, 2))]),
    ("UnsortedSegmentWeightedSum", [_reads(contents.indices(), 2), OperandRule(shapes.same_rows, (0, 1, 2))]),
    ("SparseSortedSegmentWeightedSum",
     [_reads(contents.indices(), 2, 0), _reads(contents.segments, 3), OperandRule(shapes.same_rows, (1, 2, 3))]),
    ("SparseUnsortedSegmentWeightedSum",
     [_reads(contents.indices(), 2, 0), _reads(contents.indices(), 3), OperandRule(shapes.same_rows, (1, 2, 3))]),
    # Numbers
    ("Range", [_reads(contents.step, 2)]),
]  # fmt: skip

RULES: Final[Mapping[str, Sequence[OperandRule]]] = {
    op_type: rules for types, rules in _TABLE for op_type in types.split()
}
