"""Packing and padding of sequences: what the recorded tests leave out, and element types that are refused."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import case, net, operator


def rows(*shape: int, dtype: str = "float32") -> Array:
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


def lengths(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


L3 = lengths(1, 2, 0)
WORDS = np.array(["a", "b", "c"], object)

CASES = [
    *(
        case("PackSegments", {"L": L3, "X": rows(3, 2, dtype=d)})
        for d in ("float32", "int32", "int64", "bool", "float64")
    ),
    case(
        "PackSegments", {"L": L3, "X": rows(3, 1)}, outputs=["Y", "M"], args={"return_presence_mask": 1, "pad_minf": 1}
    ),
    case(
        "PackSegments", {"L": L3, "X": rows(3)}, outputs=["Y", "M"], args={"return_presence_mask": 1, "max_length": 1}
    ),
    case("PackSegments", {"L": L3, "X": rows(3)}, args={"max_length": 4}),
    case("PackSegments", {"L": L3, "X": rows(3, dtype="int32")}, args={"pad_minf": 1}),
    case("PackSegments", {"L": L3, "X": WORDS}, args={"pad_minf": 1}),
    case("PackSegments", {"L": lengths(), "X": rows(0, 2)}, outputs=["Y", "M"], args={"return_presence_mask": 1}),
    case("PackSegments", {"L": lengths(0, 0), "X": rows(0, 2)}),
    case("UnpackSegments", {"L": lengths(1, 2), "X": rows(2, 4, 1)}),
    case("UnpackSegments", {"L": lengths(1, 9), "X": rows(2, 4, 1)}, args={"max_length": 4}),
    case("UnpackSegments", {"L": lengths(1, 2), "X": rows(2, 4, 1)}, args={"max_length": 2}),
    case("UnpackSegments", {"L": lengths(1, 2, dtype="int64"), "X": rows(2, 4, 2, 3, dtype="int64")}),
    case("AddPadding", {"X": rows(3, 1), "L": L3}, outputs=["Y", "M"]),
    case("AddPadding", {"X": rows(3, 1)}, outputs=["Y", "M"], args={"padding_width": 2, "end_padding_width": -3}),
    case("AddPadding", {"X": rows(3, 1, dtype="uint8")}, args={"padding_width": 0}),
    case("AddPadding", {"X": rows(3, 1, dtype="uint8")}),
    case(
        "AddPadding",
        {"X": rows(3, 2, dtype="bool"), "L": L3, "S": np.array([True, False]), "E": np.array([[False], [True]])},
        outputs=["Y", "M"],
    ),
    case("AddPadding", {"X": rows(3, 2, dtype="int64"), "L": L3, "S": rows(2, dtype="int64")}),
    case("RemovePadding", {"X": rows(7, 1), "L": lengths(3, 4)}, outputs=["Y", "M"]),
    case("RemovePadding", {"X": rows(7, 2), "L": lengths(3, 4)}, args={"padding_width": 2, "end_padding_width": 1}),
    case("RemovePadding", {"X": rows(7, 2, dtype="int32")}, outputs=["Y", "M"], args={"end_padding_width": 0}),
    case("RemovePadding", {"X": rows(7, 2)}, args={"padding_width": 0}),
    case("GatherPadding", {"X": rows(7, 2), "L": lengths(3, 4)}),
    case("GatherPadding", {"X": rows(7, dtype="int32"), "L": lengths(3, 3)}, outputs=["Y", "Z"]),
    case("GatherPadding", {"X": rows(7, 1), "L": lengths(3, 4)}, args={"padding_width": 0}),
    case("GatherPadding", {"X": rows(7, 1, dtype="bool"), "L": lengths(3, 4)}),
    case("ReversePackedSegs", {"X": rows(3, 2, 2), "L": lengths(1, 2)}),
    *(
        case("ReversePackedSegs", {"X": rows(3, 3, 2, dtype=d), "L": lengths(0, 3, 2, dtype="int64")})
        for d in ("float64", "int32", "int64", "bool")
    ),
    case("ReversePackedSegs", {"X": rows(3, 0, 2), "L": lengths()}),
    case("ReversePackedSegs", {"X": rows(3, 2), "L": lengths(1, 2)}),
    *(
        net(
            [operator("VariableLengthSequencePadding", ["X", "L"], ["X"])],
            {"X": rows(3, len(values), 2), "L": lengths(*values)},
        )
        for values in ((1, 2), (0, 3, 5))
    ),
    case("PadEmptySamples", {"L": lengths(1, 0, 2)}),
    case(
        "PadEmptySamples",
        {"L": lengths(1, 0, 2, 0), "A": rows(3, 2), "B": rows(3, dtype="bool"), "C": WORDS, "D": np.array([WORDS] * 3)},
        outputs=["M", "A2", "B2", "C2", "D2"],
    ),
    case("PackRNNSequence", {"X": rows(3, 2), "L": L3}),
    case("PackRNNSequence", {"X": rows(3, 2, 2, dtype="int64"), "L": L3}),
    case("PackRNNSequence", {"X": rows(3), "L": L3}),
    case("UnpackRNNSequence", {"X": rows(2, 3, 1), "L": L3}),
    case("UnpackRNNSequence", {"X": rows(3, 3, 2, dtype="int32"), "L": L3}),
    case("UnpackRNNSequence", {"X": rows(3, 3), "L": L3}),
    case("LengthsPad", {"X": rows(3, 2, dtype="int32"), "L": L3}, args={"target_length": 2, "padding_value": -1.5}),
    case("LengthsPad", {"X": rows(3), "L": L3}, args={"target_length": 3}),
    case("LengthsPad", {"X": rows(3), "L": L3}),
    # Lengths of any rank.
    case("AddPadding", {"X": rows(3, 1), "L": L3.reshape(3, 1)}, outputs=["Y", "M"]),
    case("RemovePadding", {"X": rows(7, 1), "L": lengths(3, 4).reshape(2, 1)}, outputs=["Y", "M"]),
    case("GatherPadding", {"X": rows(7, 1), "L": lengths(3, 4).reshape(2, 1)}, outputs=["Y", "Z"]),
    case("PackSegments", {"L": L3.reshape(3, 1), "X": rows(3, 1)}),
    case("PadEmptySamples", {"L": lengths(1, 0), "X": rows(1).reshape(())}, outputs=["M", "Y"]),
    case("GatherPadding", {"X": rows(7), "L": lengths(3, 4, dtype="int64")}),
    case("PadEmptySamples", {"L": lengths(-3, 0, 2)}),
    # Paddings that the element type does not hold.
    *(
        case(
            "LengthsPad",
            {"X": np.array([[7], [8]], dtype), "L": lengths(2, 0)},
            args={"target_length": 2, "padding_value": value},
        )
        for dtype in ("int32", "int64", "float64")
        for value in (np.nan, -np.inf, 3e9, 1e20, -2.7)
    ),
]
