"""How FC and Squeeze treat axes that the recorded tests do not use: weights of rank above 2, negative dims."""

from __future__ import annotations

from conformance.corpus import Array
from conformance.recording import case, generator, net, operator


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


CASES = [
    # The weight is flattened to a matrix at axis_w, the input at axis.
    case("FC", {"X": normal(1, 2, 3, 4), "W": normal(2, 5, 3, 4), "b": normal(3, 5)}),
    case("FC", {"X": normal(4, 2, 3, 4), "W": normal(5, 5, 6, 4), "b": normal(6, 30)}, args={"axis": 2, "axis_w": 2}),
    case("FC", {"X": normal(7, 2, 3, 4), "W": normal(8, 5, 4), "b": normal(9, 5)}, args={"axis": -1}),
    case("FCTransposed", {"X": normal(10, 2, 4), "W": normal(11, 4, 3, 2), "b": normal(12, 6)}),
    # Negative and unsorted dims.
    case("Squeeze", {"X": normal(13, 1, 2, 1, 3)}, args={"dims": [2, 0]}),
    case("Squeeze", {"X": normal(14, 1, 2, 1, 3)}, args={"dims": [-2]}),
    case("ExpandDims", {"X": normal(15, 2, 3)}, args={"dims": [-1]}),
    case("ExpandDims", {"X": normal(16, 2, 3)}, args={"dims": [3, 0]}),
    # An output of the flattened FC keeps the input's leading axes; the bias is added per row.
    net(
        [
            operator("FC", ["X", "W", "b"], ["H"], axis=2),
            operator("Squeeze", ["H"], ["S"], dims=[0]),
            operator("Softmax", ["S"], ["Y"], axis=1),
        ],
        {"X": normal(17, 1, 3, 4), "W": normal(18, 5, 4), "b": normal(19, 5)},
    ),
    # Axes that no rank reaches.
    *(
        case("FC", {"X": normal(20, 2, 3), "W": normal(21, 4, 3), "b": normal(22, 4)}, args=args)
        for args in ({"axis": 2**32}, {"axis_w": 2**32 + 1})
    ),
]
