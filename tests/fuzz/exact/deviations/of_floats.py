"""Deviations on elements: NaN and infinities, cancellation, and numbers that leave a range."""

from __future__ import annotations

from typing import Final

from fuzz.exact.deviations.causes import (
    INT8_PRODUCTS,
    averages_nothing,
    cancels,
    differs_by_roundings_of_gates,
    differs_in_lowest,
    exceeds_32_bits,
    has_both_zeros,
    has_constant_rows,
    has_large_angles,
    has_many_equal_scores,
    has_nan,
    has_negative_subnormals,
    has_special_floats,
    has_subnormal_exponentials,
    is_nan_for_an_infinity,
    is_not_finite,
    is_not_finite_and_leaves_the_range,
    overflows,
    overflows_midway,
    powers_leave_the_range,
    shifts_too_far,
)
from fuzz.exact.deviations.deviation import Deviation
from fuzz.exact.deviations.unchecked import NORMALIZATIONS, has_infinite_variance, has_squares_that_absorb_the_bias

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
_FROM_ROWS: Final = frozenset(
    {
        "FusedRandRowwiseQuantizedToFloat",
        "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat",
        "Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat",
        *(f"Fused{bits}BitRowwiseQuantizedTo{kind}" for bits in (2, 4, 8) for kind in ("Float", "Half", "HalfFloat")),
        *(f"SparseLengths{kind}Fused{bits}BitRowwise" for bits in (2, 4, 8) for kind in ("Mean", "Sum", "WeightedSum")),
    }
)
_CONVOLUTIONS: Final = ("Conv", "Conv1D", "Conv2D", "Conv3D")
_NORMS: Final = ("LayerNorm", "GroupNorm", "SpatialBN", "RMSNorm")
_SLOPES: Final = ("PReluGradient", "LeakyReluGradient", "SwishGradient")
_CANCELLATION: Final = (
    "the variance of nearly equal elements, or of infinite ones: Caffe2 subtracts the squared mean from the mean "
    "square, which leaves rounding errors, or a NaN, which counts as 0"
)
_NO_FACTOR: Final = "a slope or a factor that is not finite meets a 0 that ONNX's operator does not multiply"
FLOATS: Final = (
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
                "FlexibleTopK",
                "ArgMax",
                "ArgMin",
                "Sign",
                "SumRelu",
                "Summarize",
                "LengthsMax",
                "SortedSegmentRangeMax",
                "LengthsTopK",
                "Clip",
                "FloatToHalf",
                "Accuracy",
                "APMeter",
                "SelfBinningHistogram",
                "Quantile",
                "BatchBucketize",
                "BatchBucketOneHot",
                "FindDuplicateElements",
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
        frozenset(
            {
                "HSoftmaxSearch",
                "MultiClassAccuracy",
                "PairWiseLoss",
                "PairWiseLossGradient",
                "SwapBestPath",
                "ViterbiPath",
            }
        ),
        is_not_finite,  # of which sums and differences may be a NaN
    ),
    Deviation(
        "a number that is not finite, which Caffe2 skips, or clips to a bound, in operators that expect none",
        frozenset(
            {
                "CosineEmbeddingCriterion",
                "DotProductWithPadding",
                "Float16SparseNormalize",
                "Im2Col",
                "Lars",
                "LearningRate",
                "LengthsWeightedSum",
                "SortedSegmentWeightedSum",
                "SparseNormalize",
                "SparseSortedSegmentWeightedSum",
                "SparseUnsortedSegmentWeightedSum",
                "UnsortedSegmentWeightedSum",
            }
        ),
        is_not_finite,
    ),
    Deviation(
        "the maximum of negative infinities alone, which is the lowest number in some of onnxruntime's and Caffe2's "
        "kernels",
        frozenset({"MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D"}),
        differs_in_lowest,
    ),
    Deviation(
        "a NaN among what is compared: Caffe2's result depends on the order of the elements",
        frozenset({"HeatmapMaxKeypoint", "RoIPool"}),
        is_not_finite,
    ),
    Deviation(
        "exponentials too small for normal numbers, which Caffe2's vectorized kernel rounds to 0",
        frozenset({"HeatmapMaxKeypoint"}),
        has_subnormal_exponentials,
    ),
    Deviation(
        "a negative moment too small for normal numbers, whose root Caffe2's vectorized kernel takes for 0",
        frozenset({"DecayAdagrad"}),
        has_negative_subnormals,
    ),
    Deviation(
        _NO_FACTOR,
        frozenset(
            {
                "PRelu",
                "LeakyRelu",
                "Elu",
                "Selu",
                "MaxPool",
                "LRN",
                "Swish",
            }
        ),
        is_not_finite_and_leaves_the_range,
    ),
    Deviation(
        "a code times its scale leaves the range before the bias is added: Caffe2 rounds the sum alone",
        _FROM_ROWS,
        overflows_midway,
    ),
    Deviation("a stored scale or minimum of a row that is a NaN: an infinity is decoded", _FROM_ROWS, has_nan),
    Deviation(
        "Caffe2 computes log(exp(x) + 1), which is infinite from 88.7 on; ONNX's Softplus is not",
        frozenset({"Softplus"}),
        overflows,
    ),
    Deviation(
        "half of an exponential that is infinite in Caffe2: the hyperbolic cosine is not yet",
        frozenset({"SinhGradient"}),
        overflows,
    ),
    Deviation(
        "the loss of scores far apart, exp(x) of which is infinite in Caffe2: ONNX's Softplus is not",
        frozenset({"LambdaRankNdcg"}),
        overflows,
    ),
    Deviation(
        "the loss of an infinite score, whose product with a target is subtracted from one that is infinite too",
        frozenset({"SigmoidCrossEntropyWithLogits", "WeightedSigmoidCrossEntropyWithLogits"}),
        is_not_finite_and_leaves_the_range,
    ),
    Deviation(
        "scores of paths that are equal but for rounding",
        frozenset({"HSoftmaxSearch"}),
        has_constant_rows,
    ),
    Deviation(
        "equal scores among more than 16, which come in the order of an unstable sort",
        frozenset({"LambdaRankNdcg"}),
        has_many_equal_scores,
    ),
    Deviation(
        _CANCELLATION,
        frozenset(
            {
                "LayerNorm",
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
        frozenset(
            {
                *_CONVOLUTIONS,
                *_NORMS,
                *_SLOPES,
                "ConvTranspose",
                "ConvRelu",
                "UpsampleBilinear",
                "RoIAlign",
                "RoIAlignRotated",
            }
        ),
        is_not_finite_and_leaves_the_range,
    ),
    Deviation(
        "a NaN in the gates of an LSTM with biases: onnxruntime's kernel clips it to the largest float",
        frozenset({"InferenceLSTM"}),
        is_not_finite,
    ),
    Deviation(
        "squares that absorb the bias in a sum that slides over the channels: what is left of it depends on the kernel",
        frozenset({"LRN", "LRNGradient"}),
        has_squares_that_absorb_the_bias,
    ),
    Deviation(
        "a sum that slides over the channels, from which Caffe2 subtracts an infinity or a NaN again: a NaN stays",
        frozenset({"LRN", "LRNGradient"}),
        is_not_finite,
    ),
    Deviation(
        "sines of large angles, whose float32 logarithms leave errors of whole turns",
        frozenset({"SinusoidPositionEncoding"}),
        has_large_angles,
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
                "FloatToFusedRandRowwiseQuantized",
                *_ROWWISE,
            }
        ),
        has_special_floats,
    ),
    Deviation(
        "scores that are no probabilities, and of which the products leave the range of the type",
        frozenset({"CTCBeamSearchDecoder"}),
        powers_leave_the_range,
    ),
    Deviation(
        "a large number times a sigmoid that is nearly 0, of which onnxruntime's kernel bounds the absolute error",
        frozenset(
            {
                "GRUUnitGradient",
                "InferenceLSTM",
                "LSTMUnitGradient",
                "RecurrentNetwork",
                "SigmoidCrossEntropyWithLogitsGradient",
                "SwishGradient",
                "WeightedSigmoidCrossEntropyWithLogitsGradient",
            }
        ),
        differs_by_roundings_of_gates,
    ),
    Deviation(
        "the Euclidean norm of an infinity: Caffe2 scales the elements by the largest one, which may leave a NaN",
        frozenset({"ReduceL2"}),
        is_nan_for_an_infinity,
    ),
    Deviation(
        "an infinite difference: Caffe2 expands its square to squares and a product, which leaves a NaN",
        frozenset({"SquaredL2Distance"}),
        is_not_finite,
    ),
    Deviation(
        "an infinite epsilon or variance, of which Caffe2's vector instructions yield a NaN as the reciprocal of the "
        "root, others 0",
        NORMALIZATIONS,
        has_infinite_variance,
    ),
    Deviation(
        "products of Int8 tensors whose scales are less than 2**-32 times that of the result: QNNPACK, which releases "
        "do not make check this, shifts by more bits than there are; the result is its zero point here",
        INT8_PRODUCTS,
        shifts_too_far,
    ),
    Deviation(
        "products of Int8 tensors that the engine DNNLOWP scales beyond 32 bits: its vector instructions overflow, "
        "others saturate",
        INT8_PRODUCTS,
        exceeds_32_bits,
    ),
)
