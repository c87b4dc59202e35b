"""Every conversion between floats and rows of codes, and every lookup in such tables, pruned ones too."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator, net, operator


def normal(seed: int, *shape: int, dtype: str = "float32") -> Array:
    return generator(seed).standard_normal(shape, dtype="float32").astype(dtype)


def vector(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


def greedy(spec: Spec) -> Spec:
    spec.net.op[0].engine = "GREEDY"
    return spec


# Rows that are flat, tiny, huge and small below the range of halves.
EDGES = np.array([[3, 3, 3, 3], [0, 0, 0, 0], [1e-6, 2e-6, 0, 0], [-1e30, 1e30, 0, 5], [1e-40, 0, 2e-40, 0]], "float32")
MILD = np.array([[3, 3, 3, 3], [0, 0, 0, 0], [-1, 7, 0.5, 0], [-0.0, -0.0, -0.0, -0.0]], "float32")
INDICES, LENGTHS, WEIGHTS = vector(2, 0, 2, 3, 1, 1), vector(2, 0, 3, 1), normal(1, 6)
CODES = generator(2).integers(0, 256, (4, 3, 2)).astype("uint8")
PRUNED = vector(0, -1, 1, -1, 2)

TO_EIGHT = (
    "FloatToFused8BitRowwiseQuantized", "FloatToFused8BitRowwiseQuantizedHalfScaleBias",
    "HalfFloatToFused8BitRowwiseQuantized", "HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias",
)  # fmt: skip
FROM_EIGHT = (("", ("Float", "HalfFloat")), ("HalfScaleBias", ("Float", "HalfFloat")))
BITS = (2, 4)


def dtype_of(op_type: str) -> str:
    return "float16" if op_type.startswith("Half") else "float32"


def round_trip(quantize: str, dequantize: str, x: Array) -> Spec:
    return net([operator(quantize, ["X"], ["Q"]), operator(dequantize, ["Q"], ["Y"])], {"X": x})


def lookup(bits: int, kind: str, index: str, *, pruned: bool) -> Spec:
    """Return a net that quantizes a table and looks it up."""
    rows = ["Q", *(["W"] if kind == "WeightedSum" else []), "I", "L"]
    inputs = {
        "X": normal(3, 3 if pruned else 4, 8),
        "W": WEIGHTS,
        "I": INDICES.astype(index),
        "L": LENGTHS,
        "M": PRUNED,
    }
    if kind != "WeightedSum":
        del inputs["W"]
    if pruned:
        inputs["I"] = vector(2, 0, 1, 3, 4, 4, dtype=index)
        look_up = operator(f"SparseLengths{kind}{bits}BitRowwiseSparse", [*rows, "M"], ["Y"])
    else:
        del inputs["M"]
        look_up = operator(f"SparseLengths{kind}Fused{bits}BitRowwise", rows, ["Y"])
    return net([operator(f"FloatToFused{bits}BitRowwiseQuantized", ["X"], ["Q"]), look_up], inputs)


KINDS = ("Sum", "Mean", "WeightedSum")
TABLE = {"T": CODES, "I": INDICES, "L": LENGTHS, "S": normal(4, 4, 2)}
WEIGHTED_TABLE = {"T": CODES, "W": WEIGHTS, "I": INDICES.astype("int64"), "L": LENGTHS, "S": normal(4, 4, 2)}

CASES = [
    *(case(t, {"X": normal(10, 5, 6, dtype=dtype_of(t))}) for t in TO_EIGHT),
    *(case(t, {"X": MILD.astype(dtype_of(t))}) for t in TO_EIGHT),
    *(case(t, {"X": normal(11, 2, 3, 4, dtype=dtype_of(t))}) for t in TO_EIGHT),
    *(case(t, {"X": normal(12, 0, 4, dtype=dtype_of(t))}) for t in TO_EIGHT),
    case("FloatToFused8BitRowwiseQuantized", {"X": EDGES}),
    *(
        round_trip(f"FloatToFused8BitRowwiseQuantized{suffix}", f"Fused8BitRowwiseQuantized{suffix}To{name}", x)
        for suffix, names in FROM_EIGHT
        for name in names
        for x in (normal(13, 4, 5), MILD, normal(14, 0, 4))
    ),
    *(
        case(f"{p}ToFused{b}Bit{fake}RowwiseQuantized", {"X": x.astype(dtype_of(p))})
        for p in ("Float", "Half")
        for b in BITS
        for fake in ("", "Fake")
        for x in (normal(15, 4, 8), MILD, normal(16, 0, 4))
    ),
    *(
        greedy(case(f"{p}ToFused{b}Bit{fake}RowwiseQuantized", {"X": normal(17, 12, 16, dtype=dtype_of(p))}))
        for p in ("Float", "Half")
        for b in BITS
        for fake in ("", "Fake")
    ),
    *(
        round_trip(f"FloatToFused{b}BitRowwiseQuantized", f"Fused{b}BitRowwiseQuantizedTo{name}", x)
        for b in BITS
        for name in ("Float", "Half")
        for x in (normal(18, 2, 3, 8), MILD)
    ),
    case("FloatToFused4BitRowwiseQuantized", {"X": normal(19, 2, 5)}),
    case("FloatToFused4BitRowwiseQuantized", {"X": normal(20, 2, 4, dtype="float64")}),
    case("FloatToFused2BitFakeRowwiseQuantized", {"X": normal(21, 2, 2, 4)}),
    *(
        case("FloatToRowwiseQuantized8Bits", {"X": x}, outputs=["Q", "S"])
        for x in (normal(22, 4, 5), normal(23, 2, 3, 4), MILD, EDGES[:3])
    ),
    case("FloatToRowwiseQuantized8Bits", {"X": np.array([[0, 0.5, 1.5, 2.5, 255]], "float32")}, outputs=["Q", "S"]),
    *(case("Rowwise8BitQuantizedToFloat", {"Q": CODES.reshape(4, *d), "S": normal(24, 4, 2)}) for d in ((6,), (3, 2))),
    case("Rowwise8BitQuantizedToFloat", {"Q": CODES, "S": normal(25, 4, 3)}),
    *(
        net(
            [
                operator("FloatToFused8BitRowwiseQuantized", ["X"], ["Q"]),
                operator("GatherFused8BitRowwise", ["Q", "I"], ["Y"]),
            ],
            {"X": normal(26, 4, 5), "I": INDICES.astype(i)},
        )
        for i in ("int32", "int64")
    ),
    *(lookup(b, k, i, pruned=p) for b in (2, 4, 8) for k in KINDS for i in ("int32", "int64") for p in (False, True)),
    # A mapping [0] is that nothing is pruned.
    net(
        [
            operator("FloatToFused8BitRowwiseQuantized", ["X"], ["Q"]),
            operator("SparseLengthsSum8BitRowwiseSparse", ["Q", "I", "L", "M"], ["Y"]),
        ],
        {"X": normal(27, 4, 5), "I": INDICES, "L": LENGTHS, "M": vector(0)},
    ),
    *(
        case(
            "SparseLengthsSumSparseLookup",
            {"I": vector(2, 0, 1, 3, 4, 4, dtype=i), "L": LENGTHS, "M": PRUNED},
            outputs=["J", "K"],
        )
        for i in ("int32", "int64")
    ),
    case(
        "SparseLengthsSumSparseLookup",
        {"I": vector(2, 0, 1, 3, 4, 4), "L": LENGTHS, "M": PRUNED, "W": WEIGHTS},
        outputs=["J", "K", "V"],
    ),
    *(case(f"SparseLengths{k}8BitsRowwise", TABLE) for k in ("Sum", "Mean")),
    *(case(f"SparseLengths{k}8BitsRowwise", WEIGHTED_TABLE) for k in ("WeightedSum", "WeightedMean")),
    case("SparseLengthsSum8BitsRowwise", TABLE | {"S": normal(28, 4, 3)}),
    *(
        net(
            [
                operator("FloatToFusedRandRowwiseQuantized", ["X"], ["Q"], bitwidth=bits, random=0),
                operator("FusedRandRowwiseQuantizedToFloat", ["Q"], ["Y"]),
            ],
            {"X": normal(29, 3, columns)},
        )
        for bits in (1, 2, 4, 8)
        for columns in (8, 13)
    ),
    case("FloatToFusedRandRowwiseQuantized", {"X": np.ones((2, 4), "float32")}, args={"bitwidth": 2}),
    case("FloatToFusedRandRowwiseQuantized", {"X": normal(30, 2, 4)}, args={"bitwidth": 3}),
    case("GatherFused8BitRowwise", {"X": np.zeros((3, 8), "uint8"), "I": INDICES[:1]}),
    case("SparseLengthsSumFused8BitRowwise", {"X": np.zeros((3, 8), "uint8"), "I": INDICES[:1], "L": vector(1)}),
    case("SparseLengthsSumFused4BitRowwise", {"X": np.zeros((3, 4), "uint8"), "I": INDICES[:1], "L": vector(1)}),
    case("FloatToRowwiseQuantized8Bits", {"X": normal(31, 3)}, outputs=["Q", "S"]),
    case("Rowwise8BitQuantizedToFloat", {"Q": CODES[:, 0, 0], "S": normal(32, 4, 2)}),
    case("SparseLengthsSum8BitsRowwise", TABLE | {"T": CODES[:, 0, 0].copy()}),
]

INF, NAN = np.inf, np.nan
WEIGHTS = (np.array([0, 0, INF, 0, NAN, -INF], np.float32), np.array([0, 1, 0, 1, 0, 1], np.float32))
LENGTHS = np.array([2, 0, 3, 1], np.int32)
EIGHT_BITS = np.array([[0, 3], [255, 0], [7, 9], [1, 1], [0, 0], [4, 200]], np.uint8)
SCALES = np.array([[0.5, -1], [0.1, 3], [0, 0], [1, 1], [0.2, -0.2], [1e-3, 0]], np.float32)
PICKED = np.array([5, 0, 1, 1, 3, 2])
FUSED = {
    bits: np.concatenate([EIGHT_BITS, SCALES.astype(kind).view(np.uint8)], axis=1)
    for bits, kind in ((2, np.float16), (4, np.float16), (8, np.float32))
}

CASES += [
    # Scales and biases are weighted, and not rows.
    *(
        case(
            f"SparseLengths{kind}8BitsRowwise", {"T": EIGHT_BITS, "W": weights, "I": PICKED, "L": LENGTHS, "S": SCALES}
        )
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
]

# Rows whose scale is 0 as float16, and whose minimum as float16 is not an element.
NARROW = np.array([[0.1, 0.1], [1.0, 1.0000001], [0.333, 0.333], [3.0, 3.0]], np.float32)

CASES += [
    *(
        case(f"FloatToFused{bits}BitFakeRowwiseQuantized", {"X": rows})
        for bits in (2, 4)
        for rows in (NARROW, NARROW[:, :1].copy())
    ),
    case("HalfToFused2BitFakeRowwiseQuantized", {"X": NARROW.astype(np.float16)}),
]
