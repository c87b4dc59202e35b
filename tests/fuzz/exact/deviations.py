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
    sums_leave_the_range,
)
from fuzz.exact.drawn import Drawn
from fuzz.exact.unchecked import (
    INDEXED,
    has_another_state,
    has_foreign_index,
    has_too_few_bytes,
    is_resized_to_another_size,
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
DEVIATIONS: Final = (
    Deviation(
        "a NaN among what is compared: Caffe2's result depends on the order of the elements",
        frozenset(
            [
                "MaxPool",
                "MaxPool1D",
                "MaxPool2D",
                "MaxPool3D",
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
        frozenset({"MultiClassAccuracy", "SwapBestPath", "ViterbiPath"}),
        is_not_finite,  # of which sums may be a NaN
    ),
    Deviation(
        "a slope or a factor that is not finite meets a 0 that ONNX's operator does not multiply",
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
        "the variance of nearly equal elements, or of infinite ones: Caffe2 subtracts the squared mean from the mean "
        "square, which leaves rounding errors, or a NaN, which counts as 0",
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
        "a state of FTRL that does not have two numbers for each weight, or a gradient of another size, which released "
        "builds of Caffe2 do not check",
        frozenset({"SparseFtrl"}),
        has_another_state,
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
GENERAL: Final[tuple[Deviation, ...]] = (
    Deviation(
        "the element type of no elements: Caffe2's kernels do not look at it, and return their own",
        frozenset(),
        differs_in_types_of_nothing,
    ),
    Deviation(
        "finite operands whose sums or products leave the range of the type: where they do depends on the order",
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
