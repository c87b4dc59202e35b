"""Recorded cases outside of the domain of their operators: inputs that Caffe2 neither documents nor checks.

Of such a case one promise holds: its conversion returns or raises an error of the project, and a run ends with a
result, an error of the project or one of onnxruntime, never with the process. No node is added to a graph for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

# Why, and which cases: numbers, and ranges of them, by file.
_CASES: Final[Mapping[str, Mapping[str, str]]] = {
    "labels are infinite or NaN": {
        "recorded/ops/PairWiseLoss": "004-009 013-015 053 056 062",
        "recorded/ops/PairWiseLossGradient": "007-010 012-021",
    },
    "a tensor without elements, whose dims are documented to be kept, and which Caffe2 sets to 0": {
        "ops/Reshape": "002",
        "recorded/ops/Reshape": "006-008 010-014 016-017",
    },
    "labels and scores are infinite or NaN": {
        "recorded/ops/PairWiseLoss": "016-018 020-021 025-026 028-030 032-033 037-038 041-042 044-045 049-050",
    },
    "finite numbers whose sum leaves the range": {
        "recorded/ops/PairWiseLoss": "058",
    },
    "a row of zeros is divided by its length as float16": {
        "recorded/ops/Float16SparseNormalize": "009 011 013",
    },
    "a row is scaled again although it is infinite, or too small or large for its square": {
        "recorded/ops/Float16SparseNormalize": "012",
        "recorded/ops/SparseNormalize": "013-016 018-019",
    },
    "a sequence of 0 divides a sum of no gradients": {
        "recorded/ops/SparseWngrad": "004",
    },
    "an element to be put into a bucket is a NaN": {
        "recorded/ops/BatchBucketize": "002",
        "recorded/ops/BatchBucketOneHot": "002",
    },
    "boundaries are not sorted or NaN": {
        "recorded/ops/BatchBucketize": "003",
        "recorded/ops/BisectPercentile": "002",
    },
    "a weight of 0 multiplies an infinity or a NaN": {
        "recorded/ops/LengthsWeightedSum": "004",
        "recorded/ops/SortedSegmentWeightedSum": "003",
        "recorded/ops/SparseSortedSegmentWeightedSum": "003",
        "recorded/ops/SparseUnsortedSegmentWeightedSum": "004",
        "recorded/ops/UnsortedSegmentWeightedSum": "004",
    },
    "an optimizer divides 0 by 0, or a bound is a NaN": {
        "recorded/ops/Lars": "005-007",
    },
    "an iteration number that float32 does not hold": {
        "recorded/ops/LearningRate": "087-094 101-107",
    },
    "a gradient so large that Caffe2 loses the momentum it is added to": {
        "recorded/ops/SparseStorm": "006",
        "recorded/ops/Storm": "001",
    },
    "epsilon is negative or NaN": {
        "recorded/ops/YellowFin": "010 013-024",
    },
    "curvatures whose exponentials leave the range": {
        "recorded/ops/YellowFin": "009 011",
    },
    "fields of different lengths": {
        "recorded/ops/TrimDataset": "011-014",
    },
    "ids beyond the sum of their lengths": {
        "recorded/ops/MergeIdLists": "003-005",
    },
    "lengths that are no vector": {
        "recorded/ops/LengthsTopK": "006-009",
    },
    "indices beyond the length of their segment": {
        "recorded/ops/LengthsTopKGradient": "001",
    },
    "a NaN among elements to be compared": {
        "recorded/ops/FindDuplicateElements": "005-006",
    },
    "a NaN among scores, or a margin that is not finite": {
        "recorded/ops/CosineEmbeddingCriterion": "001-004",
    },
    "a label that has no opposite in 32 bits": {
        "recorded/ops/MarginRankingCriterion": "001",
        "recorded/ops/MarginRankingCriterionGradient": "002",
    },
    "no classes": {
        "recorded/ops/LabelCrossEntropyGradient": "006",
        "recorded/ops/SpatialSoftmaxWithLoss": "009-010",
    },
    "weights of both signs that sum to 0": {
        "recorded/ops/SoftmaxWithLoss": "009",
    },
    "more weights than rows": {
        "recorded/ops/SoftmaxWithLoss": "012",
    },
    "keys beyond 32 bits": {
        "recorded/ops/KeySplit": "002",
    },
    "more elements than examples and features": {
        "recorded/ops/MergeDenseFeatureTensors": "007-008",
    },
    "more weights than pixels": {
        "recorded/ops/SpatialSoftmaxWithLoss": "004-005",
        "recorded/ops/SpatialSoftmaxWithLossGradient": "010",
    },
    "a pixel that does not count holds an infinity or a NaN": {
        "recorded/ops/SpatialSoftmaxWithLoss": "006-008",
        "recorded/ops/SpatialSoftmaxWithLossGradient": "012-014",
    },
    "rows of X without elements": {
        "recorded/ops/DotProductWithPadding": "004 006",
    },
    "epsilon is not finite": {
        "recorded/ops/LayerNorm": "007",
    },
    "rows without variance, and an epsilon of 0": {
        "recorded/ops/LayerNorm": "008",
    },
    "a window of Caffe's legacy pooling starts behind the image": {
        "recorded/ops/AveragePool": "016 037 039 041",
        "recorded/ops/LpPool": "016 030-032",
        "recorded/ops/MaxPool": "028-030",
    },
    "an image ends a stride before its first window": {
        "recorded/ops/AveragePool": "024",
        "recorded/ops/ConvGradient": "003",
    },
    "an infinity beside other pixels of an image": {
        "recorded/ops/Im2Col": "004-009",
    },
    "a gradient that has not the rank of the result": {
        "recorded/ops/AddGradient": "001-003",
        "recorded/ops/DivGradient": "001-003",
        "recorded/ops/MulGradient": "000-002",
        "recorded/ops/SubGradient": "000-002",
    },
    "axes are listed twice": {
        "recorded/ops/MomentsGradient": "001-004",
        "recorded/ops/ReduceL1Gradient": "002-007",
        "recorded/ops/ReduceL2Gradient": "004-009",
        "recorded/ops/ReduceMaxGradient": "001-006",
        "recorded/ops/ReduceMeanGradient": "000-005",
        "recorded/ops/ReduceMinGradient": "000-005",
        "recorded/ops/ReduceSumGradient": "000-005",
    },
    "a gradient that is infinite or NaN where the derivative is 0": {
        "recorded/ops/ClipGradient": "000",
        "recorded/ops/PReluGradient": "002",
    },
    "a gradient of 0, and a derivative that leaves the range": {
        "recorded/ops/SinhGradient": "000",
    },
    "a result is a NaN": {
        "recorded/ops/ThresholdedReluGradient": "000",
    },
    "the mean of no integers": {
        "recorded/ops/ReduceBackMeanGradient": "000",
    },
    "no slopes": {
        "recorded/ops/PReluGradient": "000",
    },
    "pads of mode reflect as large as the image": {
        "recorded/ops/PadImageGradient": "006",
    },
    "boxes that end before they start": {
        "recorded/ops/BoxWithNMSLimit": "057-058",
    },
    "a heatmap or an image holds an infinity or a NaN": {
        "recorded/ops/HeatmapMaxKeypoint": "009-014",
        "recorded/ops/RoIAlignRotated": "013",
        "recorded/ops/RoIPool": "008 010",
    },
    "regions without columns": {
        "recorded/ops/Int8RoIAlign": "006",
    },
    "a region without an area, of whose samples there are none": {
        "recorded/ops/RoIAlign": "001 005 011",
    },
    "an image without channels": {
        "recorded/ops/RMACRegions": "015",
    },
    "a power or a product of integers beyond 53 bits, or of 0 to a negative power": {
        "recorded/ops/ATen": "472-475 477 479 481-484 487-489 511-512 534 544 552",
    },
    "the norm of integers": {
        "recorded/ops/ATen": "266-271",
    },
    "a layer of no columns, of whose gradient Caffe2 adds no rows to that of the bias": {
        "recorded/ops/FCGradient": "003",
        "recorded/ops/FCTransposedGradient": "003",
    },
    "rows shorter than the window": {
        "recorded/ops/ATen": "471 543",
    },
    "a shift longer than the dim, whose size the conversion does not know": {
        "recorded/ops/ATen": "563-566",
    },
}


def _ids(group: str, numbers: str) -> Iterator[str]:
    """Yield the ids of the cases of a file."""
    for part in numbers.split():
        first, _, last = part.partition("-")
        yield from (f"{group}/{number:03}" for number in range(int(first), int(last or first) + 1))


# The id of a case: what its inputs are that no operator promises anything for.
OUTSIDE: Final[Mapping[str, str]] = {
    case: reason
    for reason, groups in _CASES.items()
    for group, numbers in groups.items()
    for case in _ids(group, numbers)
}
