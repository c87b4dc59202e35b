"""Shapes: what the recording lacks of Reshape's zeros and -1, of empty tensors, and of types without any case."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator, net, operator

RANDOM = generator(11)
X = RANDOM.standard_normal((4, 3, 2), dtype="float32")
INTS = RANDOM.integers(-50, 50, (4, 6), dtype="int32")
EMPTY = np.zeros((0, 3, 4), np.float32)
HOLLOW = np.zeros((5, 0, 2), np.float32)
OLD = ("Y", "old_shape")


def ints(*values: int, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype)


CASES = [
    *(
        case("Reshape", {"X": x}, outputs=OLD, args={"shape": shape})
        for x in (X, EMPTY, HOLLOW)
        for shape in ([0, -1], [-1, 0], [0, 0, -1], [-1], [0, -1, 2], [8, 0, -1])
    ),
    *(
        case("Reshape", {"X": x, "shape": ints(*shape, dtype=dtype)}, outputs=OLD)
        for x in (X, EMPTY, HOLLOW)
        for dtype in ("int32", "int64")
        for shape in ([0, -1],)
    ),
    # Shapes that are computed: their length follows from ranks.
    *(
        net(
            [
                operator("Shape", ["X"], ["all"]),
                operator("Shape", ["X"], ["some"], axes=[0, 2]),
                operator("Sub", ["all", "all"], ["zeros"]),
                operator("Sub", ["some", "changes"], ["changed"]),
                operator("Reshape", ["X", "zeros"], ["A", "A_old"]),
                operator("Reshape", ["X", "changed"], ["B", "B_old"]),
                operator("Reshape", ["B", "A_old"], ["C", "C_old"]),
            ],
            {"X": x, "changes": ints(*changes)},
        )
        for x, changes in ((X, (0, 3)), (X, (5, -4)), (EMPTY, (0, 5)), (EMPTY, (1, 0)), (HOLLOW, (6, 0)))
    ),
    net([operator("Shape", ["X"], ["all"]), operator("Expand", ["A", "all"], ["Y"])], {"X": X, "A": X[:, :1]}),
    case("Reshape", {"X": X}, outputs=OLD, args={"shape": [5, -1]}),
    case("Reshape", {"X": X}, outputs=OLD, args={"shape": [-1, -1]}),
    *(case("FlattenToVec", {"X": x}) for x in (X, INTS, EMPTY, X > 0)),
    *(case("PrependDim", {"X": x}, args={"dim_size": n}) for x, n in ((X, 2), (X, 4), (EMPTY, 3), (HOLLOW, 5))),
    case("PrependDim", {"X": X}, args={"dim_size": 3}),
    *(case("MergeDim", {"X": x}) for x in (X, INTS, EMPTY, HOLLOW)),
    *(case("ResizeLike", {"X": x, "like": y}) for x, y in ((X, INTS), (EMPTY, HOLLOW), (HOLLOW, np.zeros((0, 9))))),
    case("ResizeLike", {"X": X, "like": EMPTY}),
    *(case("Transpose", {"X": EMPTY}, args=args) for args in ({}, {"axes": [2, 0, 1]})),
    *(case("Flatten", {"X": x}, args={"axis": axis}) for x in (EMPTY, HOLLOW) for axis in (0, 1, 2, 3)),
    *(case("Shape", {"X": HOLLOW}, args=args) for args in ({}, {"axes": [2, 0]})),
    case("Size", {"X": HOLLOW}),
    *(case("Expand", {"X": X[:, :1], "shape": ints(*shape)}) for shape in ((0, 5, -1), (2, 1, 3, 1), (3, 2))),
    *(
        case("Tile", {"X": X, "tiles": ints(2, dtype=dtype)}, args={"axis": axis})
        for dtype in ("int32", "int64")
        for axis in (0, 1, -1)
    ),
    *(case("Tile", {"X": INTS, "tiles": ints(3), "axis": ints(axis)}) for axis in (0, 1, -1)),
    *(case("Tile", {"X": X}, args={"tiles": n, "axis": axis}) for n, axis in ((0, 1), (2, -1), (2, -3))),
    *(
        case("NumpyTile", {"X": x, "repeats": ints(*n)})
        for x, n in ((X, (2, 1, 3)), (X > 0, (1, 2, 0)), (INTS, (2, 2)))
    ),
    # Which operands may be of another rank than vectors.
    *(
        case(
            op_type,
            {"X": np.ones(shape, "float32"), **{name: np.array(given, kind) for name in names}},
            outputs=outputs,
        )
        for op_type, shape, names, kind, outputs in (
            ("Expand", (1, 1), ("s",), "int64", ["Y"]),
            ("Reshape", (3, 4), ("s",), "int64", ["Y", "old"]),
            ("Slice", (3, 4), ("s", "e"), "int32", ["Y"]),
            ("ResizeNearest", (1, 1, 2, 2), ("s",), "float32", ["Y"]),
            ("UpsampleBilinear", (1, 1, 2, 2), ("s",), "float32", ["Y"]),
        )
        for given in ([[4, 3]], [[4], [3]], 12, [2, 2, 3])
    ),
    # Integers beyond 32 bits, which some arguments may be.
    case("Slice", {"X": INTS}, args={"starts": [0, 1], "ends": [1 << 40, (1 << 40) + 1]}),
    case("Slice", {"X": INTS}, args={"starts": [0, 1], "ends": [-1, -(1 << 40)]}),
    case("Transpose", {"X": INTS}, args={"axes": [1 << 32, 1]}),
    case("Concat", {"X": INTS, "Z": INTS}, outputs=["Y", "split"], args={"axis": (1 << 32) + 1}),
    case("Tile", {"X": INTS}, args={"tiles": 2, "axis": 1 << 32}),
    case("ConstantFill", {}, args={"shape": [2], "value": 1 << 40, "dtype": 10}),
]
