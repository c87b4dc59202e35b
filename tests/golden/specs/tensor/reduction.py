"""Reductions, products, distances, counts and losses: lengths, empty tensors, weights, unusual shapes."""

from __future__ import annotations

import itertools

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def probabilities(seed: int, *shape: int) -> Array:
    x = generator(seed).random(shape, dtype="float32") + np.float32(0.05)
    return np.asarray(x / x.sum(-1, keepdims=True), "float32")


def ints(*values: int) -> Array:
    return np.array(values, "int32")


def reductions() -> list[Spec]:
    x, k = normal(1, 2, 3), -np.arange(1, 7).reshape(2, 3)
    cases = []
    for kind in ("Sum", "Mean", "Max"):
        cases += [
            case(f"ReduceFront{kind}", {"X": x, "n": ints(0, 1, 2)}),
            case(f"ReduceBack{kind}", {"X": x, "n": ints(0, 3)}),
            case(f"ReduceFront{kind}", {"X": normal(2, 3, 2, 2), "n": ints(1, 2, 3, 2)}),
            case(f"ReduceFront{kind}", {"X": x[:0]}),
            case(f"ReduceBack{kind}", {"X": x[:, :0]}),
            case(f"ReduceFront{kind}", {"X": x}, args={"num_reduce_dim": 3}),
            case(f"ReduceFront{kind}", {"X": x, "n": ints(1)}, args={"num_reduce_dim": 2}),
        ]
    for kind, dtype in itertools.product(("Sum", "Mean"), ("int32", "int64", "float64")):
        cases += [
            case(f"ReduceFront{kind}", {"X": k.astype(dtype)}),
            case(f"ReduceBack{kind}", {"X": k.astype(dtype), "n": ints(3, 2)}),
        ]
    for kind in ("Sum", "Mean", "L1", "L2", "Max", "Min"):
        cases += [
            case(f"Reduce{kind}", {"X": x}, args={"axes": [-1]}),
            case(f"Reduce{kind}", {"X": x}, args={"axes": [0, 0], "keepdims": 0}),
            case(f"Reduce{kind}", {"X": x}, args={"axes": [2]}),
            case(f"Reduce{kind}", {"X": x[0, 0]}),
            case(f"Reduce{kind}", {"X": x[:0]}, args={"axes": [0], "keepdims": 0}),
            case(f"Reduce{kind}", {"X": x[:0]}, args={"axes": [1], "keepdims": 0}),
        ]
    return [
        *cases,
        *(
            case(f"Reduce{kind}", {"X": k.astype(d)})
            for kind in ("Sum", "Max", "Min")
            for d in ("int32", "int64", "float64")
        ),
        case("ReduceFrontWeightedSum", {"X": x, "w": normal(3, 2)}),
        case("ReduceFrontWeightedSum", {"X": x[0], "w": normal(4, 3)}),
        case("ReduceFrontWeightedSum", {"X": normal(5, 2, 3, 4), "w": normal(6, 2, 3)}, args={"num_reduce_dim": 2}),
        case("ReduceFrontWeightedSum", {"X": normal(7, 3, 3, 3), "w": normal(8, 3, 3)}, args={"num_reduce_dim": 2}),
        case("ReduceFrontWeightedSum", {"X": normal(9, 2, 3, 4), "w": normal(10, 3, 2)}, args={"num_reduce_dim": 2}),
        case("ReduceFrontWeightedSum", {"X": normal(11, 2, 3), "w": normal(12, 2, 3)}, args={"num_reduce_dim": 2}),
        case("Summarize", {"X": x}),
        case("SumElements", {"X": x[:0]}, args={"average": 1}),
        case("SumSqrElements", {"X": x}, args={"average": 1}),
        case("SumSqrElements", {"X": x.astype("float64")}),
        case("AveragedLoss", {"X": x}),
        case("AveragedLoss", {"X": x[:0]}),
        case("ReduceTailSum", {"X": normal(5, 2, 3, 2)}),
        case("ReduceTailSum", {"X": x[0]}),
        *(case(t, {"X": normal(6, 2, 3, 4)}) for t in ("RowwiseMax", "ColwiseMax")),
    ]


def counting() -> list[Spec]:
    ranges = [ints(5, -2, -2), ints(5, -3, -2), ints(0, 5, 2), ints(3, 1), ints(1, 4), ints(0, 5, -1), ints(4)]
    floats = [(0.5, 3.0, 0.5), (0.0, 1.0, 0.3), (2.0, 0.0), (1.0, -1.0, -0.75)]
    values = [*ranges, *(np.array(v, d) for v in floats for d in ("float32", "float64"))]
    return [case("Range", {name: v[i : i + 1] for i, name in enumerate("abc"[: len(v)])}) for v in values]


def distances() -> list[Spec]:
    shapes: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 2, 3), (0, 3)]
    types = ("SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity")
    x = normal(10, 2, 3)
    return [
        *(case(t, {"X": normal(11, *s), "Z": normal(12, *s)}) for t in types for s in shapes),
        case("CosineSimilarity", {"X": x * np.float32(1e-10), "Z": x}),
        case("DotProductWithPadding", {"X": x, "Z": normal(13, 2, 5)}, args={"replicate": 1}),
        case("DotProductWithPadding", {"X": normal(13, 2, 7), "Z": x}, args={"replicate": 1}),
        case("DotProductWithPadding", {"X": normal(13, 2, 7), "Z": x}, args={"pad_value": 2.0}),
        case("DotProductWithPadding", {"X": x[0], "Z": x[1]}),
    ]


def products() -> list[Spec]:
    a, b = normal(20, 2, 3, 4), normal(21, 2, 4, 5)
    return [
        case("BatchMatMul", {"A": a, "B": b[:1]}),
        case("BatchMatMul", {"A": a, "B": b[:1]}, args={"broadcast": 1}),
        case("BatchMatMul", {"A": a, "B": normal(22, 3, 1, 4, 5)}, args={"broadcast": 1}),
        case("BatchMatMul", {"A": normal(23, 4), "B": b}),
        case("BatchMatMul", {"A": a, "B": normal(24, 4)}),
        case("BatchMatMul", {"A": normal(23, 4), "B": normal(24, 4)}),
        case("BatchMatMul", {"A": normal(23, 4), "B": normal(25, 2, 5, 4)}, args={"trans_a": 1, "trans_b": 1}),
        case("ConcatBatchMatMulBatchGatherOp", {"i": ints(1, 2, 0), "a": a[0], "b": a[1], "c": a[0] + 1}),
        case(
            "TT",
            {"X": normal(26, 3, 6), "b": normal(27, 10), "cores": normal(28, 50)},
            args={"inp_sizes": [2, 3], "out_sizes": [5, 2], "tt_ranks": [1, 2, 1]},
        ),
    ]


def losses() -> list[Spec]:
    x, p, q = normal(30, 2, 3), probabilities(31, 2, 3), probabilities(32, 2, 3)
    w = np.array([1, 3], "float32")
    cases = [
        case("CrossEntropy", {"X": p, "l": q}),
        case("CrossEntropy", {"X": p * 0, "l": q}),
        case("LabelCrossEntropy", {"X": p, "l": ints(0, 2)}),
        case("LabelCrossEntropy", {"X": p, "l": ints(0, 2).reshape(2, 1)}),
        case("LabelCrossEntropy", {"X": p[0], "l": ints(2)}),
        case("LabelCrossEntropy", {"X": p[None], "l": ints(4)}),
        case("MakeTwoClass", {"X": p}),
        case("WeightedSigmoidCrossEntropyWithLogits", {"X": x, "t": p, "w": q}),
        case("SigmoidCrossEntropyWithLogits", {"X": x[0, 0], "t": p[0, 0]}),
        case("SigmoidCrossEntropyWithLogits", {"X": x * 100, "t": p}, args={"log_D_trick": 1}),
        case("SigmoidCrossEntropyWithLogits", {"X": x * 100, "t": p}, args={"unjoined_lr_loss": 1}),
        case("SigmoidCrossEntropyWithLogits", {"X": x, "t": p}, args={"unjoined_lr_loss": 1, "log_D_trick": 1}),
        case("MarginRankingCriterion", {"X": x[0], "Z": x[1], "l": ints(1, -1, 0)}),
        case("CosineEmbeddingCriterion", {"X": x[0], "l": ints(1, -1, 2)}, args={"margin": 0.25}),
        case("Perplexity", {"X": p[0]}),
        case("Perplexity", {"X": p[:, :1]}),
        case("BernoulliJSD", {"X": np.array([0.1, 0.2, 0], "float32"), "T": np.array([0.3, 1, 0.5], "float32")}),
        case("PairWiseLoss", {"X": normal(33, 4), "l": np.array([1, 0, 2, 2], "float32")}),
        case("PairWiseLoss", {"X": normal(34, 7), "l": normal(35, 7), "n": ints(2, 0, 1, 4)}),
        case("PairWiseLoss", {"X": normal(36, 4, 1), "l": normal(37, 4, 1), "n": ints(3, 1)}),
        case("PairWiseLoss", {"X": normal(36, 0), "l": normal(37, 0)}),
        case("LambdaRankNdcg", {"y": normal(38, 6), "r": normal(39, 6), "n": ints(2, 0, 4)}, outputs=["l", "d"]),
    ]
    both = ["P", "loss"]
    soft = {"X": x, "l": ints(0, 2)}
    cases += [
        case("SoftmaxWithLoss", soft, outputs=both, args={"scale": 2.0, "average_by_batch_size": 1}),
        case("SoftmaxWithLoss", {**soft, "w": w}, outputs=both, args={"scale": 2.0, "average_by_batch_size": 1}),
        case("SoftmaxWithLoss", {**soft, "w": w}, outputs=both, args={"scale": 0.5}),
        case("SoftmaxWithLoss", {**soft, "w": w * 0}, outputs=both),
        case("SoftmaxWithLoss", {"X": x[:0], "l": ints()}, outputs=both),
        case("SoftmaxWithLoss", {"X": x * 100, "l": ints(0, 1)}, outputs=both),
        case("SoftmaxWithLoss", {"X": x * 50, "l": p}, outputs=both, args={"label_prob": 1}),
        case("SoftmaxWithLoss", {"X": normal(40, 2, 3, 2), "l": ints(5, 2)}, outputs=both),
        case("SoftmaxWithLoss", soft, outputs=both, args={"order": "NHWC"}),
    ]
    images, labels = normal(41, 1, 3, 2, 1), ints(2, -1).reshape(1, 2, 1)
    weights = w.reshape(1, 2, 1)
    uncounted = np.array([[[[1], [np.nan]]]], "float32")
    cases += [
        case("SpatialSoftmaxWithLoss", {"X": images, "l": labels}, outputs=both),
        case("SpatialSoftmaxWithLoss", {"X": images, "l": labels, "w": weights}, outputs=both, args={"scale": 2.0}),
        case("SpatialSoftmaxWithLoss", {"X": images, "l": labels * 0 - 1}, outputs=both),
        case("SpatialSoftmaxWithLoss", {"X": images * 100, "l": labels * 0}, outputs=both),
        # More weights than pixels, of which Caffe2 reads the first; labels of another rank, which it refuses.
        case("SpatialSoftmaxWithLoss", {"X": images, "l": labels * 0, "w": images + 3}, outputs=both),
        case("SpatialSoftmaxWithLoss", {"X": images, "l": labels * 0, "w": normal(42, 5) + 3}, outputs=both),
        case("SpatialSoftmaxWithLoss", {"X": images, "l": ints(2, 0, 7)[None]}, outputs=both),
        # A pixel that does not count, whatever its scores and its weight are.
        case("SpatialSoftmaxWithLoss", {"X": images * uncounted, "l": labels}, outputs=both),
        case("SpatialSoftmaxWithLoss", {"X": images, "l": labels, "w": weights * uncounted[:, 0]}, outputs=both),
        case("SpatialSoftmaxWithLoss", {"X": images, "l": labels * 0 - 1, "w": weights * np.inf}, outputs=both),
    ]
    return cases


CASES = [
    *reductions(),
    *counting(),
    *distances(),
    *products(),
    *losses(),
    *(
        case("DotProductWithPadding", {"X": normal(13, 2, columns), "Z": normal(14, 2, 3 - columns)}, args=args)
        for columns, args in ((0, {"pad_value": 2.0}), (3, {"pad_value": 2.0}), (0, {"replicate": 1}))
    ),
    case(
        "TT",
        {"X": normal(15, 2, 6), "b": normal(16, 10), "cores": normal(17, 50)},
        args={"inp_sizes": [2, 3], "out_sizes": [5, 1], "tt_ranks": [1, 2, 1]},
    ),
    # What the longer rows have beyond the others is added before it is multiplied.
    *(
        case("DotProductWithPadding", {"X": x, "Z": np.zeros((1, 1), np.float32)}, args={"pad_value": pad})
        for pad, x in (
            (np.inf, np.array([[0, 3, -1]], np.float32)),
            (3e38, np.array([[0, 2, -2]], np.float32)),
        )
    ),
    # Weights that sum to 0, or to less.
    *(
        case(
            "SoftmaxWithLoss",
            {"X": normal(18, 2, 3), "l": np.array([0, 2], np.int32), "w": np.array(weights, np.float32)},
            outputs=["P", "loss"],
            args={"average_by_batch_size": by_rows},
        )
        for weights in ([2, -2], [2, -3])
        for by_rows in (0, 1)
    ),
    # More weights than rows, of which the first count.
    case(
        "SoftmaxWithLoss",
        {
            "X": normal(19, 2, 3),
            "l": np.full((2, 3), 1 / 3, np.float32),
            "w": np.array([[1, 2, 5], [3, 4, 9]], np.float32),
        },
        outputs=["P", "loss"],
        args={"label_prob": 1},
    ),
]


def scalars(dtype: type, *values: float) -> dict[str, Array]:
    return {name: np.array([value], dtype) for name, value in zip("abc", values, strict=False)}


CASES += [
    *(case("Range", scalars(dtype, 0, stop, 0.3)) for dtype, stop in ((np.float64, 1.2e18), (np.float32, 1e30))),
    case("ReduceTailSum", {"X": np.array(3, np.float32)}),
]

# Integers whose sums leave 32 and 64 bits, and those that float64 does not hold.
NARROW_SUMS = np.array([[2**31 - 1, -(2**31), 5], [2**31 - 1, -7, -(2**31)]], np.int32)
WIDE_SUMS = np.array([[2**63 - 1, 2**53 + 1, -(2**63)], [2**62, 2, -1]], np.int64)

CASES += [
    case("ReduceFrontMax", {"X": np.zeros((0, 3), np.float64)}),
    *(
        case("ReduceSum", {"X": x}, args={"axes": axes})
        for x in (NARROW_SUMS, WIDE_SUMS)
        for axes in ([0], [1], [0, 1])
    ),
    *(
        case(op_type, {"X": x})
        for op_type in ("ReduceFrontSum", "ReduceBackSum", "ReduceFrontMean", "ReduceBackMean")
        for x in (NARROW_SUMS, WIDE_SUMS)
    ),
    case("ReduceFrontSum", {"X": WIDE_SUMS[:, 0].copy()}),
    case("ReduceFrontSum", {"X": WIDE_SUMS[:0]}),
    case("SumElementsInt", {"X": NARROW_SUMS}),
    case("CosineSimilarity", {"X": np.array([[1e3], [2.0]], np.float32), "Z": np.array([[3e17], [-5.0]], np.float32)}),
]
