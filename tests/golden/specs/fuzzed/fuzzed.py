"""Cases that the differential fuzzer found: optimizers, gradients and quantized rows."""

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(21)


def real(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, dtype="float32")


def positive(*shape: int) -> np.ndarray:
    return np.abs(real(*shape)) + np.float32(0.1)


LR = np.array([0.1, 7.0], np.float32)  # of which Caffe2 reads the first element
STEP = np.array([3, 5], np.int64)
X, G, M1, M2 = real(2, 3), real(2, 3), positive(2, 3), positive(2, 3)
IDS = np.array([1, 0, 1], np.int64)
ROWS = real(3, 3)
# Differences from 0, the last ones below what counts as 0; and gradients that are not finite.
NORMS = np.array([[1.5, -2.0, 0.0, 1e-11, -1e-11, 1e-13, -1e-13, np.nan]], np.float32)
STEEP = np.full((1, 8), np.inf, np.float32)
# Rows whose scale is 0 as float16, and whose minimum as float16 is not an element.
NARROW = np.array([[0.1, 0.1], [1.0, 1.0000001], [0.333, 0.333], [3.0, 3.0]], np.float32)
# Integers whose sums leave 32 and 64 bits, and those that float64 does not hold.
NARROW_SUMS = np.array([[2**31 - 1, -(2**31), 5], [2**31 - 1, -7, -(2**31)]], np.int32)
WIDE_SUMS = np.array([[2**63 - 1, 2**53 + 1, -(2**63)], [2**62, 2, -1]], np.int64)
PIXELS = np.array([[[[0.2, 0.5]], [[0.3, 0.4]], [[0.5, 0.1]]]], np.float32)

CASES = [
    case("Adagrad", {"w": X, "m": M1, "g": G, "lr": LR}, outputs=["w", "m"]),
    case("Adadelta", {"w": X, "m": M1, "d": M2, "g": G, "lr": LR}, outputs=["w", "m", "d"]),
    case("Lars", {"X": X, "dX": G, "wd": LR, "trust": LR, "max": LR}),
    case("Wngrad", {"w": X, "b": LR, "g": G, "lr": LR}, outputs=["w", "b"]),
    case("Adam", {"w": X, "m": M1, "v": M2, "g": G, "lr": LR[:1], "i": STEP}, outputs=["w", "m", "v"]),
    case("WeightScale", {"w": X, "i": STEP}, outputs=["w"], args={"stepsize": 4, "scale": 0.5}),
    case("LearningRate", {"i": STEP}, args={"policy": "exp", "base_lr": 2.0, "gamma": 0.5}),
    case("LearningRate", {"i": STEP}, args={"policy": "cosine", "base_lr": 2.0, "t_mult": 0.0}),
    case("LearningRate", {"i": STEP}, args={"policy": "cosine", "base_lr": 2.0, "t_mult": -2.0}),
    *(
        case("LearningRate", {"i": STEP}, args={"policy": policy, "base_lr": 0.5, "linear_warmup_num_iter": -(2**31)})
        for policy in ("constantThenLinearWarmup", "compositeCyclical", "compositeCosine")
    ),
    *(
        case(op_type, inputs, outputs=["w", "nz"], args={"alpha": alpha})
        for op_type, inputs in (
            ("Ftrl", {"w": X, "nz": positive(12), "g": G}),
            ("SparseFtrl", {"w": X, "nz": positive(12), "i": IDS, "g": ROWS}),
            ("SparseFtrl", {"w": X, "nz": positive(2, 6), "i": IDS, "g": ROWS}),
        )
        for alpha in (0.0, 0.5)
    ),
    case(
        "SparseAdam",
        {"w": X, "m": M1, "v": M2, "i": IDS, "g": ROWS, "lr": LR[:1], "t": STEP},
        outputs=["w", "m", "v"],
        args={"enableRAdam": 1, "beta2": 1.0},
    ),
    *(
        case(
            "ReduceL1Gradient",
            {"dY": np.array([[dy]], np.float32), "X": NORMS, "Y": np.ones((1, 1), np.float32)},
            outputs=["dX"],
        )
        for dy in (2.5, np.inf)
    ),
    *(
        case(
            "ReduceL2Gradient",
            {"dY": np.array([[2.5]], np.float32), "X": real(1, 3), "Y": np.array([[norm]], np.float32)},
            outputs=["dX"],
        )
        for norm in (1e-13, -1.0, 2.0)
    ),
    case("AbsGradient", {"X": NORMS, "dY": STEEP}),
    case("AbsGradient", {"X": NORMS, "dY": np.ones_like(STEEP)}),
    case("L1DistanceGradient", {"X": NORMS, "Y": np.zeros_like(NORMS), "dZ": STEEP[0, :1]}, outputs=["dX", "dY"]),
    *(
        case(f"FloatToFused{bits}BitFakeRowwiseQuantized", {"X": rows})
        for bits in (2, 4)
        for rows in (NARROW, NARROW[:, :1].copy())
    ),
    case("HalfToFused2BitFakeRowwiseQuantized", {"X": NARROW.astype(np.float16)}),
    case("PadEmptySamples", {"L": np.array([-3, 0, 2], np.int32)}),
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
    # An iteration of which float32 rounds the cycle.
    case(
        "LearningRate",
        {"i": np.array([-(2**31)], np.int64)},
        args={"policy": "cyclical", "base_lr": 0.3, "stepsize": 4},
    ),
    # The gradient of the loss of pixels has the scale, but where no pixel counts.
    *(
        case(
            "SpatialSoftmaxWithLossGradient",
            {"X": PIXELS, "label": labels, **weights, "P": PIXELS, "dloss": np.array(0.7, np.float32)},
            outputs=["dX"],
            args={"scale": scale},
        )
        for labels in (np.array([[[0, -1]]], np.int32), np.array([[[-1, -1]]], np.int32))
        for weights in ({}, {"w": positive(1, 1, 2)})
        for scale in (2.5, 0.0, -1.0)
    ),
    case(
        "SpatialSoftmaxWithLoss",
        {"X": PIXELS, "label": np.array([[[0, 1]]], np.int32)},
        outputs=["P", "loss"],
        args={"scale": -1.0},
    ),
    # There may be no class where no pixel counts.
    *(
        case(
            "SpatialSoftmaxWithLoss",
            {"X": np.zeros((2, classes, 1, 3), np.float32), "label": np.full((2, 1, 3), -1, np.int32), **weights},
            outputs=["P", "loss"],
        )
        for classes in (0, 1)
        for weights in ({}, {"w": positive(2, 1, 3)})
    ),
    # Paddings that the element type does not hold.
    *(
        case(
            "LengthsPad",
            {"X": np.array([[7], [8]], dtype), "L": np.array([2, 0], np.int32)},
            args={"target_length": 2, "padding_value": value},
        )
        for dtype in ("int32", "int64", "float64")
        for value in (np.nan, -np.inf, 3e9, 1e20, -2.7)
    ),
    *(
        case("RMACRegions", {"X": positive(2, 1, *sizes)}, args={"overlap": overlap})
        for sizes in ((3, 1), (2, 5))
        for overlap in (np.inf, np.nan, 1e30)
    ),
    case("RMACRegions", {"X": positive(2, 0, 3, 4)}),
    case(
        "TileGradient",
        {"dY": np.array([[-1, 5, -(2**31), 2**31 - 1]], np.int32)},
        outputs=["dX"],
        args={"tiles": 2, "axis": 1},
    ),
    case(
        "ReduceBackMeanGradient",
        {"dY": np.array([[1], [2]], np.int32), "X": np.zeros((2, 1, 0), np.int32)},
        outputs=["dX"],
    ),
    case(
        "LengthsTopKGradient",
        {"L": np.zeros(0, np.int32), "I": np.zeros((0, 0), np.int32), "dY": np.zeros((0, 0), np.float32)},
        outputs=["dX"],
        args={"k": 10},
    ),
]
