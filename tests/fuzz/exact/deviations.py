"""Where the conversion knowingly does not do what Caffe2 does, with the reasons that docs/testing.md gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from conformance.corpus import is_gradient

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView
from fuzz.exact.causes import (
    Arrays,
    always,
    averages_nothing,
    cancels,
    differs_in_types_of_nothing,
    has_both_zeros,
    has_constant_rows,
    has_large_numbers,
    has_nan,
    has_negative_numbers,
    has_no_rows,
    has_other_characters,
    has_special_floats,
    has_unsorted_floats,
    is_not_finite,
    is_resized_otherwise,
    leaves_the_range,
    overflows,
    powers_leave_the_range,
    sums_leave_the_range,
)
from fuzz.exact.drawn import Drawn
from fuzz.exact.images import (
    has_a_part_of_a_block,
    has_equal_scores,
    has_flat_boxes,
    has_other_columns,
    has_regions_elsewhere,
    has_windows_beyond,
    reflects_twice,
)
from fuzz.exact.unchecked import (
    INDEXED,
    fails,
    has_another_state,
    has_foreign_index,
    has_too_few_bytes,
    has_unsorted_bounds,
    is_resized_to_another_size,
    is_shorter_than_padding,
    samples_nowhere,
)

Applies = Callable[[Drawn, Arrays, Arrays], bool]


@dataclass(frozen=True)
class Deviation:
    """Operator types whose results may differ for a reason, and whether a case gives it cause.

    ``may_fail``: the model may also fail to run.
    """

    reason: str
    types: frozenset[str]
    applies: Applies
    may_fail: bool = False


def _is_training(drawn: Drawn) -> bool:
    """Whether operators compute gradients, or update or add up weights."""
    return any(
        is_gradient(op.type) or op.type in _OPTIMIZERS or "Adagrad" in op.type or "Adam" in op.type
        for op in all_operators(NetView(drawn.net))
    )


_OPTIMIZERS: Final = frozenset(
    {"Lars", "Wngrad", "SparseWngrad", "Adadelta", "SparseAdadelta", "Ftrl", "SparseFtrl", "GFtrl", "RmsProp", "Storm",
     "SparseStorm", "YellowFin", "MomentumSGD", "MomentumSGDUpdate", "SparseMomentumSGDUpdate", "WeightScale",
     "WeightedSum", "ScatterWeightedSum", "LambdaRankNdcg"}
)  # fmt: skip
_ROWWISE: Final = frozenset(
    {
        "FloatToRowwiseQuantized8Bits",
        *(
            f"{kind}ToFused{bits}Bit{how}"
            for kind in ("Float", "HalfFloat", "Half")
            for bits in (2, 4, 8)
            for how in ("RowwiseQuantized", "FakeRowwiseQuantized", "RowwiseQuantizedHalfScaleBias")
        ),
    }
)
_CONVOLUTIONS: Final = tuple(f"{kind}{dims}" for kind in ("Conv", "LC") for dims in ("", "1D", "2D", "3D"))
_NORMS: Final = ("LayerNorm", "InstanceNorm", "GroupNorm", "SpatialBN", "AffineChannel", "RMSNorm")
_CANCELLATION: Final = (
    "the variance of nearly equal elements, or of infinite ones: Caffe2 subtracts the squared mean from the mean "
    "square, which leaves rounding errors, or a NaN, which counts as 0"
)
_NO_FACTOR: Final = "a slope or a factor that is not finite meets a 0 that ONNX's operator does not multiply"
DEVIATIONS: Final = (
    Deviation(
        "a NaN among what is compared: Caffe2's result depends on the order of the elements",
        frozenset(
            [
                "MaxPool",
                "MaxPool1D",
                "MaxPool2D",
                "MaxPool3D",
                "ConvRelu",
                "CollectRpnProposals",
                "CollectAndDistributeFpnRpnProposals",
                "Max",
                "Min",
                "ReduceMax",
                "ReduceMin",
                "ReduceFrontMax",
                "ReduceBackMax",
                "RowwiseMax",
                "ColwiseMax",
                "TopK",
                "ArgMax",
                "ArgMin",
                "Sign",
                "LengthsMax",
                "SortedSegmentRangeMax",
                "LengthsTopK",
                "Clip",
                "FloatToHalf",
                "Accuracy",
                "SelfBinningHistogram",
                "Quantile",
                "Percentile",
                "Bucketize",
                "MaxPoolGradient",
                "MaxPool2DGradient",
                "MaxPool1DGradient",
                "MaxPool3DGradient",
                "MaxGradient",
                "MinGradient",
                "ReduceMaxGradient",
                "ReduceMinGradient",
                "LengthsMaxWithMainInputAndForwardOutputGradient",
            ]
        ),
        has_nan,
    ),
    Deviation(
        "a NaN among what is compared: Caffe2's result depends on the order of the elements",
        frozenset({"HSoftmaxSearch", "MultiClassAccuracy", "PairWiseLoss", "SwapBestPath", "ViterbiPath"}),
        is_not_finite,  # of which sums and differences may be a NaN
    ),
    Deviation(
        _NO_FACTOR,
        frozenset(
            {
                "PRelu",
                "PReluGradient",
                "LeakyRelu",
                "LeakyReluGradient",
                "Elu",
                "Selu",
                "MaxPool",
                "LC",
                "LC1D",
                "LC2D",
                "LC3D",
                "LRN",
                "Swish",
                "SwishGradient",
            }
        ),
        is_not_finite,
    ),
    Deviation(
        "a stored scale or bias that is not finite",
        frozenset(f"Fused{bits}BitRowwiseQuantizedTo{kind}" for bits in (2, 4, 8) for kind in ("Float", "HalfFloat")),
        overflows,
    ),
    Deviation(
        "Caffe2 computes log(exp(x) + 1), which is infinite from 88.7 on; ONNX's Softplus is not",
        frozenset({"Softplus"}),
        overflows,
    ),
    Deviation(
        _CANCELLATION,
        frozenset(
            {
                "LayerNorm",
                "LayerNormGradient",
                "InstanceNorm",
                "GroupNorm",
                "BatchMoments",
                "SpatialBN",
                "C10LayerNorm_DontUseThisOpYet",
                "RowwiseMoments",
            }
        ),
        has_constant_rows,
    ),
    Deviation(_CANCELLATION, frozenset({"Moments", "RowwiseMoments"}), cancels),
    Deviation(
        _NO_FACTOR,
        frozenset({*_CONVOLUTIONS, *_NORMS, "ConvTranspose", "ConvRelu", "UpsampleBilinear", "RoIAlign"}),
        lambda drawn, expected, actual: (
            is_not_finite(drawn, expected, actual) and leaves_the_range(drawn, expected, actual)
        ),
    ),
    Deviation(
        "a window that starts beyond the image (Caffe's legacy pooling, with a stride over the kernel and without "
        "pads), in which Caffe2 reads out of bounds",
        frozenset(f"{kind}Pool{dims}" for kind in ("Max", "Average", "Lp") for dims in ("", "1D", "2D", "3D")),
        has_windows_beyond,
        may_fail=True,
    ),
    Deviation(
        "as many pads of mode reflect as pixels, or more: Caffe2 reflects once at each end, then reads out of bounds",
        frozenset({"PadImage"}),
        reflects_twice,
        may_fail=True,
    ),
    Deviation(
        "a number of images that is no multiple of the pixels of a block, of which Caffe2 writes some over others",
        frozenset({"BatchToSpace"}),
        has_a_part_of_a_block,
        may_fail=True,
    ),
    Deviation(
        "a region of an image that does not exist, or one whose samples 32 bits do not count: Caffe2 reads out of "
        "bounds",
        frozenset({"RoIAlign", "RoIAlignRotated", "RoIPool", "RoIAlignGradient", "RoIAlignRotatedGradient"}),
        has_regions_elsewhere,
        may_fail=True,
    ),
    Deviation(
        "proposals that do not have five columns, whose elements Caffe2 reads in rows of five",
        frozenset({"CollectRpnProposals", "CollectAndDistributeFpnRpnProposals"}),
        has_other_columns,
        may_fail=True,
    ),
    Deviation(
        "equal scores, or a NaN: which comes first depends on an unstable sort, and what is suppressed on the first",
        frozenset({"GenerateProposals", "GenerateProposalsCPP", "BoxWithNMSLimit"}),
        has_equal_scores,
    ),
    Deviation(
        "coordinates of boxes that are not finite, whose overlap is a NaN",
        frozenset({"GenerateProposals", "GenerateProposalsCPP", "BoxWithNMSLimit"}),
        is_not_finite,
    ),
    Deviation(
        "rotated boxes without a positive width and height, of whose overlap Caffe2's rounding decides",
        frozenset({"GenerateProposals", "GenerateProposalsCPP"}),
        has_flat_boxes,
    ),
    Deviation(
        "no elements to normalize, to average or to split, which onnxruntime's kernel refuses",
        frozenset({"Glu", "LayerNorm", "C10LayerNorm_DontUseThisOpYet", "LRN", "LRNGradient"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation("the mean of no elements, which ONNX does not define", frozenset({"BatchMoments"}), averages_nothing),
    Deviation(
        "operands of a gradient that contradict each other, and that Caffe2 does not compare",
        frozenset({"DivGradient", "ReduceFrontWeightedSumGradient", "SliceGradient"}),
        always,
    ),
    Deviation(
        "a table without rows, of which the conversion knows the rank alone: Caffe2 returns it, whatever the indices",
        frozenset({"Gather", "BatchGather", "ScatterWeightedSum", "SparseToDense"}),
        has_no_rows,
        may_fail=True,
    ),
    Deviation(
        "a string with characters beyond ASCII, of which Caffe2 counts bytes",
        frozenset({"StringPrefix", "StringSuffix"}),
        has_other_characters,
        may_fail=True,
    ),
    Deviation(
        "a gradient that does not have the sizes of the resized image, or a scale that is not positive",
        frozenset({"ResizeNearestGradient", "ResizeNearest3DGradient"}),
        is_resized_otherwise,
        may_fail=True,
    ),
    Deviation(
        "sines of large positions, whose float32 logarithms leave errors of whole turns",
        frozenset({"SinusoidPositionEncoding"}),
        has_large_numbers,
    ),
    Deviation(
        "the stored minimum of a row: the sign of a zero, and what it is of no elements",
        _ROWWISE,
        lambda drawn, expected, actual: (
            averages_nothing(drawn, expected, actual) or has_both_zeros(drawn, expected, actual)
        ),
    ),
    Deviation(
        "a float that is not finite or beyond 32 bits is quantized: Caffe2 casts it to an integer, which C++ does not "
        "define",
        frozenset(
            {
                "Int8Quantize",
                "Int8Add",
                "Int8Sum",
                "Int8SumRelu",
                *_ROWWISE,
            }
        ),
        has_special_floats,
    ),
    Deviation(
        "the mean of no elements, and the order of a NaN: PyTorch has a NaN, and the last place; ONNX defines neither",
        frozenset({"ATen"}),
        lambda drawn, expected, actual: averages_nothing(drawn, expected, actual) or has_nan(drawn, expected, actual),
    ),
    Deviation("boundaries that are not sorted, or a NaN", frozenset({"BatchBucketize"}), has_unsorted_floats),
    Deviation(
        "an index that lies outside of what it indexes, which released builds of Caffe2 do not check: they read and "
        "write other memory",
        frozenset(INDEXED),
        has_foreign_index,
        may_fail=True,
    ),
    Deviation(
        "operands of sizes that contradict each other, which Caffe2 does not compare: the model reports an error",
        frozenset(
            {
                "BatchGatherGradient",
                "BooleanMaskGradient",
                "HSoftmax",
                "HSoftmaxGradient",
                "HSoftmaxSearch",
                "MergeMultiListFeatureTensorsGradient",
                "MergeMultiMapFeatureTensorsGradient",
                "MergeMultiScalarFeatureTensorsGradient",
                "MergeSingleListFeatureTensorsGradient",
                "MergeSingleMapFeatureTensorsGradient",
                "MergeSingleScalarFeatureTensorsGradient",
                "ReduceBackMaxGradient",
                "ReduceBackMeanGradient",
                "ReduceBackSumGradient",
                "ReduceFrontMaxGradient",
                "ReduceFrontMeanGradient",
                "ReduceFrontSumGradient",
                "SparseLengthsSumSparseLookup",
                "SparseToDenseMask",
                "TTSparseLengthsSumGradient",
                "YellowFin",
            }
        ),
        fails,
        may_fail=True,
    ),
    Deviation(
        "scores that are no probabilities, and of which the products leave the range of the type",
        frozenset({"CTCBeamSearchDecoder"}),
        powers_leave_the_range,
    ),
    Deviation(
        "a loss of no elements, of which Caffe2 returns none, whatever the lengths",
        frozenset({"PairWiseLoss"}),
        averages_nothing,
    ),
    Deviation(
        "bounds of a piecewise linear function that are not sorted, in which Caffe2 searches by bisection",
        frozenset({"PiecewiseLinearTransform"}),
        has_unsorted_bounds,
    ),
    Deviation(
        "a search or a draw among no elements, of which Caffe2 returns a vector of none at once",
        frozenset({"CTCBeamSearchDecoder", "WeightedMultiSampling"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "products of matrices without columns: onnxruntime's fused product does not write them",
        frozenset({"BatchMatMul", "ConcatBatchMatMulBatchGatherOp"}),
        averages_nothing,
    ),
    Deviation(
        "a coordinate that is not finite, which PyTorch casts to an integer",
        frozenset({"ATen"}),
        samples_nowhere,
    ),
    Deviation(
        "a segment shorter than its paddings, before which Caffe2 reads other memory",
        frozenset({"GatherPadding", "RemovePadding"}),
        is_shorter_than_padding,
        may_fail=True,
    ),
    Deviation(
        "a state of FTRL that does not have two numbers for each weight, or a gradient of another size, which released "
        "builds of Caffe2 do not check",
        frozenset({"SparseFtrl"}),
        has_another_state,
        may_fail=True,
    ),
    Deviation(
        "a batch without sequences, on which onnxruntime's LSTM and GRU end the process, so that it is not run",
        frozenset({"InferenceLSTM", "RecurrentNetwork", "RecurrentNetworkGradient"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "fewer bytes than weights, which Caffe2 does not compare",
        frozenset({"ByteWeightDequant"}),
        has_too_few_bytes,
        may_fail=True,
    ),
    Deviation(
        "a product that is resized like an operand of another number of elements: Caffe2 keeps the first ones, or "
        "reads new memory",
        frozenset({"MatMul"}),
        is_resized_to_another_size,
        may_fail=True,
    ),
    Deviation(
        "the index of the largest or smallest of no elements, which is 0 in Caffe2, and which ONNX does not define",
        frozenset({"ArgMax", "ArgMin"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "an infinite difference: Caffe2 expands its square to squares and a product, which leaves a NaN",
        frozenset({"SquaredL2Distance"}),
        is_not_finite,
    ),
    Deviation("negative lengths", frozenset({"LengthsSplit"}), has_negative_numbers, may_fail=True),
)
# Deviations of operators of any type.
LEAVES_THE_RANGE: Final = (
    "finite operands whose sums or products leave the range of the type: where they do depends on the order"
)
ABSORBS: Final = "large operands beside small ones, which are lost in sums: how many are depends on the order"
GENERAL: Final[tuple[Deviation, ...]] = (
    Deviation(
        "the element type of no elements: Caffe2's kernels do not look at it, and return their own",
        frozenset(),
        differs_in_types_of_nothing,
    ),
    Deviation(
        LEAVES_THE_RANGE,
        frozenset(),
        sums_leave_the_range,
    ),
    Deviation(
        "a NaN or an infinity in an optimizer, a gradient or a weighted sum: whether it meets a 0, or is compared, "
        "depends on the form",
        frozenset(),
        lambda drawn, expected, actual: _is_training(drawn) and leaves_the_range(drawn, expected, actual),
    ),
)


def deviation(drawn: Drawn, expected: Arrays, actual: Arrays) -> str:
    """The reason why the results of a case may differ, or why it may fail without any; empty if none applies."""
    types = {op.type for op in all_operators(NetView(drawn.net))}
    known = [each for each in DEVIATIONS if types & each.types and (each.may_fail or expected)]
    candidates = (*known, *(GENERAL if expected else ()))
    return next((each.reason for each in candidates if each.applies(drawn, expected, actual)), "")
