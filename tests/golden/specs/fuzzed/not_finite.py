"""Elements that are not finite, or near the ends of their ranges: where Caffe2 copies, skips, or multiplies them."""

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(50)
INF, NAN = np.inf, np.nan

IMAGE = RANDOM.standard_normal((2, 3, 5, 4), dtype="float32")
IMAGE[0, 1, 2, 1], IMAGE[1, 2, 0, 3] = INF, NAN
LOCAL = RANDOM.standard_normal((2, 3, 2, 3, 3, 2), dtype="float32")
BOX = np.array([[0, 0, 4, 4]], np.float32)
UPRIGHT = np.array([[0, 0, 15, 15], [2, 2, 20, 24], [5, 5, 9, 9]], np.float32)
ROTATED = np.array([[8, 8, 16, 16, 0], [10, 10, 20, 24, 30], [7, 7, 5, 5, -60]], np.float32)
IMAGE_SIZE = np.array([[80, 90, 1]], np.float32)
DELTAS = generator(51).normal(0, 0.3, (1, 15, 2, 5)).astype(np.float32)
MAPS = (
    [100.0] * 9,  # of which the exponentials are infinite, or 0
    [-200.0] * 9,
    [*[88.0] * 8, 90.0],
    [1, 2, 3, 4, INF, 5, 6, 7, 8],
    [1, 2, 3, 4, -INF, 5, 6, 7, 8],
    [1, 2, 3, 9, -INF, 5, 6, 7, 8],
    [INF] * 9,
    [-INF] * 9,
    [1e38, -1e38, 1e30, 3e38, 1, 2, 3, 4, 5],
)
TABLE = np.array([[0, 0], [3, 4], [INF, 1], [NAN, 1], [1e-30, 0], [0.1, 0.1], [-INF, 0], [0.6, 0.8]], np.float32)
ROWS = np.array([[INF, 1], [NAN, 0], [2, 3], [-INF, 4], [0, 0], [5, 6]], np.float32)
LENGTHS, SEGMENTS = np.array([2, 0, 3, 1], np.int32), np.array([0, 0, 1, 1, 2, 3], np.int32)
INDICES = np.arange(6)
WEIGHTS = (np.array([0, 0, INF, 0, NAN, -INF], np.float32), np.array([0, 1, 0, 1, 0, 1], np.float32))
HYPERBOLIC = np.array([89, -89, 88, 0.5, INF], np.float32)
ODD = np.array([[NAN, NAN, NAN], [1, 2, 3], [0, INF, -INF], [1.5, 2, 0.5]], np.float32)
BOUNDARIES, BOUNDS = np.array([1, 2, 3, 1, 1.5, 0, 1, 2, 3], np.float32), np.array([3, 2, 4], np.int32)
CODES = np.array([[0, 3], [255, 0], [7, 9], [1, 1], [0, 0], [4, 200]], np.uint8)
SCALES = np.array([[0.5, -1], [0.1, 3], [0, 0], [1, 1], [0.2, -0.2], [1e-3, 0]], np.float32)
PICKED = np.array([5, 0, 1, 1, 3, 2])
FUSED = {
    bits: np.concatenate([CODES, SCALES.astype(kind).view(np.uint8)], axis=1)
    for bits, kind in ((2, np.float16), (4, np.float16), (8, np.float32))
}


def plane_with(value: float) -> np.ndarray:
    plane = RANDOM.standard_normal((1, 1, 4, 4), dtype="float32")
    plane[0, 0, ::3, :2] = value
    return plane


def scores_with_lowest(place: int) -> np.ndarray:
    scores = generator(52).permutation(np.linspace(0.01, 0.99, 30)).astype(np.float32)
    scores[place] = -INF
    return scores.reshape(1, 3, 2, 5)


def segment_sums(rows: np.ndarray, weights: np.ndarray) -> list[object]:
    """Weighted sums of every form: those of lengths with indices multiply by a weight of 0, the others skip it."""
    by = {"Lengths": {"L": LENGTHS}, "SortedSegment": {"S": SEGMENTS}, "UnsortedSegment": {"S": SEGMENTS}}
    return [
        case(f"{prefix}{form}WeightedSum", {"X": rows, "W": weights, **looked_up, **segments})
        for form, segments in by.items()
        for prefix, looked_up in (("", {}), ("Sparse", {"I": INDICES}))
    ]


def scalars(dtype: type, *values: float) -> dict[str, np.ndarray]:
    return {name: np.array([value], dtype) for name, value in zip("abc", values, strict=False)}


CASES = [
    *(
        case("Im2Col", {"X": IMAGE}, args={"kernel": k, "stride": s, "pad": p, "dilation": d, "order": order})
        for k, s, p, d in ((2, 1, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2))
        for order in ("NCHW", "NHWC")
    ),
    case("LC", {"X": IMAGE, "W": LOCAL}, args={"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 1}),
    *(
        case(
            "HeatmapMaxKeypoint",
            {"X": np.array(pixels, np.float32).reshape(1, 1, 3, 3), "boxes": BOX},
            args={"should_output_softmax": 1},
        )
        for pixels in MAPS
    ),
    *(
        case(op_type, {"w": TABLE.astype(dtype), "i": np.arange(8)}, outputs=["w"], args=args)
        for op_type, dtype in (("SparseNormalize", np.float32), ("Float16SparseNormalize", np.float16))
        for args in ({}, {"use_max_norm": 0}, {"norm": 0.0, "use_max_norm": 0}, {"norm": NAN})
    ),
    *(each for weights in WEIGHTS for rows in (ROWS, ROWS[:, :1]) for each in segment_sums(rows, weights)),
    *(
        case("Perplexity", {"P": np.array(numbers, np.float32)})
        for numbers in ([-0.5], [-INF, 1, 1], [-0.5, 0.2], [0, INF], [0, 0.5])
    ),
    *(case("Range", scalars(dtype, 0, stop, 0.3)) for dtype, stop in ((np.float64, 1.2e18), (np.float32, 1e30))),
    *(case("SinusoidPositionEncoding", {"X": np.zeros(shape, np.int32)}) for shape in ((0, 0), (0, 2))),
    # Exponentials that overflow before the hyperbolic functions do, and a result of 0 with a large gradient.
    *(
        case(op_type, {"dY": np.array([0, 0, 1, 2, -INF], np.float32), "X": HYPERBOLIC}, outputs=["dX"])
        for op_type in ("SinhGradient", "CoshGradient")
    ),
    case(
        "SigmoidGradient",
        {"Y": np.array([3.4e38, 3.4e38, 0, 0.25], np.float32), "dY": np.array([0, 1, INF, 3], np.float32)},
        outputs=["dX"],
    ),
    *(
        case(
            "CosineEmbeddingCriterion",
            {"S": np.array([-1, 0.5, NAN, NAN, INF, -INF], np.float32), "l": np.array([0, 0, 0, 1, 0, 0], np.int32)},
            args={"margin": margin},
        )
        for margin in (0.0, NAN, INF, -INF)
    ),
    # A bucket for NaN: that of a binary search which it never passes, or always.
    case("BatchBucketize", {"X": ODD, "I": np.array([1, 0, 2], np.int32), "B": BOUNDARIES, "L": BOUNDS}),
    case("BatchBucketOneHot", {"X": ODD, "L": BOUNDS, "B": BOUNDARIES}),
    case("Bucketize", {"X": ODD}, args={"boundaries": [1.0, 2.0]}),
    # A maximum starts from the lowest number.
    *(
        case(
            "RoIPool",
            {"X": plane, "R": np.array([[0, 0, 0, 3, 3]], np.float32)},
            outputs=["Y", "places"],
            args={"pooled_h": 2, "pooled_w": 2},
        )
        for plane in (plane_with(NAN), plane_with(-INF), np.full((1, 1, 4, 4), -INF, np.float32))
    ),
    # Scales and biases are weighted, and not rows.
    *(
        case(f"SparseLengths{kind}8BitsRowwise", {"T": CODES, "W": weights, "I": PICKED, "L": LENGTHS, "S": SCALES})
        for kind in ("WeightedSum", "WeightedMean")
        for weights in WEIGHTS
    ),
    *(
        case(
            f"SparseLengthsWeightedSumFused{bits}BitRowwise",
            {"T": FUSED[bits], "W": weights, "I": PICKED, "L": LENGTHS},
        )
        for bits in FUSED
        for weights in WEIGHTS
    ),
    # A pair of labels that are not finite counts, and the second label is the lower one; that of equal ones does not.
    *(
        case(
            "PairWiseLoss", {"X": np.array([*scores, 1, 2], np.float32), "l": np.array(labels, np.float32), **sessions}
        )
        for scores in ((0.5, -0.3, 0.2), (INF, 1, 2), (INF, INF, 2), (NAN, 1, 2), (1e38, -3e38, 2))
        for labels in ((INF, INF, 1, NAN, 2), (1, INF, INF, -INF, -INF), (1, 1, 3, 3, 2), (NAN, 2, 1, NAN, INF))
        for sessions in ({}, {"n": np.array([3, 2], np.int32)}, {"n": np.array([1, 4], np.int32)})
    ),
    # A score that is a negative infinity comes last, and is kept.
    *(
        case(
            "GenerateProposals",
            {"s": scores_with_lowest(place), "d": DELTAS[:, : anchors.size], "i": IMAGE_SIZE, "a": anchors},
            outputs=["rois", "probs"],
            args={"nms_thresh": threshold, "post_nms_topN": 0},
        )
        for anchors in (UPRIGHT, ROTATED)
        for place in (0, 17, 29)
        for threshold in (0.1, 0.6)
    ),
    # Edges that are equal once half a pixel is subtracted: a region without samples.
    case(
        "RoIAlign",
        {"X": IMAGE[:, :2], "R": np.array([[0, 1e-9, 2, 2e-9, 4], [1, 1, 0, 3, 1e-10], [0, 0, 0, 2, 3]], np.float32)},
        args={"aligned": 1, "pooled_w": 2},
    ),
]
