"""Deviations on tensors without elements."""

from __future__ import annotations

from typing import Final

from fuzz.exact.deviations.causes import (
    averages_nothing,
    has_float_zeros,
    has_no_rows,
    has_no_sequences,
    multiplies_nothing,
)
from fuzz.exact.deviations.deviation import Deviation
from fuzz.exact.deviations.unchecked import CONVOLUTIONS, has_no_filters

NOTHING: Final = (
    Deviation(
        "no elements to normalize or to average, which onnxruntime's kernel refuses, or on which it ends the process",
        frozenset({"LayerNorm", "C10LayerNorm_DontUseThisOpYet", "LRN", "LRNGradient", "InstanceNorm", "GroupNorm"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "the gradients of a fully connected layer without operand elements: Caffe2 does not look at the element type, "
        "and returns zeros of float",
        frozenset({"FCGradient", "FCTransposedGradient"}),
        has_float_zeros,
    ),
    Deviation(
        "the padding of images without pixels: Caffe2 does not look at the element type, and returns zeros of float",
        frozenset({"SpaceToBatch"}),
        has_float_zeros,
    ),
    Deviation(
        "the mean of no elements, which ONNX does not define, or their number as an integral divisor",
        frozenset({"BatchMoments", "ReduceBackMeanGradient", "ReduceFrontMeanGradient", "PReluGradient"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "a table without rows, of which the conversion knows the rank alone: Caffe2 returns it, whatever the indices",
        frozenset({"Gather", "BatchGather", "BatchGatherGradient", "Scatter", "ScatterWeightedSum", "SparseToDense"}),
        has_no_rows,
        may_fail=True,
    ),
    Deviation(
        "no images, or none with pixels: onnxruntime's kernel refuses results that are smaller still, or their maxima",
        frozenset({"Col2Im", "ConvTranspose", "RoIPool"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "products of rows without elements, of which Caffe2 returns none, or repeats them to the length of others",
        frozenset({"DotProduct", "DotProductWithPadding", "DotProductWithPaddingGradient"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "a loss of no elements, of which Caffe2 returns none, whatever the lengths",
        frozenset({"PairWiseLoss"}),
        averages_nothing,
    ),
    Deviation(
        "a sum, mean or maximum of no elements, of which Caffe2 returns zeros, whatever the lengths",
        frozenset(f"Reduce{end}{kind}" for end in ("Front", "Back") for kind in ("Sum", "Mean", "Max")),
        averages_nothing,
        may_fail=True,
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
        multiplies_nothing,
    ),
    Deviation(
        "the gradient of no resized images: onnxruntime's product refuses to broadcast a matrix to no matrices",
        frozenset({"UpsampleBilinearGradient", "ResizeNearestGradient", "ResizeNearest3DGradient"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "a batch without sequences, on which onnxruntime's LSTM and GRU end the process, so that it is not run",
        frozenset({"InferenceLSTM", "RecurrentNetwork", "RecurrentNetworkGradient"}),
        has_no_sequences,
        may_fail=True,
    ),
    Deviation(
        "a convolution without filters, on which onnxruntime's kernel ends the process, so that it is not run",
        frozenset(CONVOLUTIONS),
        has_no_filters,
        may_fail=True,
    ),
    Deviation(
        "the regions of images without channels, of which Caffe2 makes none",
        frozenset({"RMACRegions"}),
        averages_nothing,
    ),
    Deviation(
        "a path among no tags, of which Caffe2 reads other memory",
        frozenset({"ViterbiPath"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "the index of the largest or smallest of no elements, which is 0 in Caffe2, and which ONNX does not define",
        frozenset({"ArgMax", "ArgMin"}),
        averages_nothing,
        may_fail=True,
    ),
    Deviation(
        "the maximum of no elements, which is the lowest number: Caffe2 reads memory before its operand",
        frozenset({"RowwiseMax", "ColwiseMax"}),
        averages_nothing,
    ),
)
