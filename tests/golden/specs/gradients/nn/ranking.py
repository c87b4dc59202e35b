"""Gradients of ranking losses and of hierarchical softmax: empty sessions, ties, and probabilities of 0."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]
rng = generator(0)


def floats(*values: Any) -> Array:
    return np.array(values, "float32")


def pairs(x: Array, labels: Array, dy: Array, *lengths: Sequence[int]) -> Spec:
    given = {"lengths": np.array(lengths[0], "int32")} if lengths else {}
    return case("PairWiseLossGradient", {"X": x, "label": labels, "dY": dy, **given}, outputs=["dX"])


def sessions(lengths: Sequence[int]) -> Spec:
    count = sum(lengths)
    y, dy = (rng.standard_normal(count).astype("float32") for _ in range(2))
    dloss = rng.standard_normal(len(lengths)).astype("float32")
    inputs = {"y": y, "lengths": np.array(lengths, "int32"), "dy": dy, "dloss": dloss}
    return case("LambdaRankNdcgGradient", inputs, outputs=["dX"])


# HierarchyProto: paths = 2; PathProto: word_id = 1, path_nodes = 2; PathNodeProto: index = 1, length = 2, target = 3.
def message(*fields: tuple[int, int | bytes]) -> bytes:
    """Return a serialized message of integers below 128 and of messages shorter than that."""
    parts = (
        bytes([number << 3, value]) if isinstance(value, int) else bytes([number << 3 | 2, len(value)]) + value
        for number, value in fields
    )
    return b"".join(parts)


def path(word: int, *steps: tuple[int, int, int]) -> tuple[int, bytes]:
    nodes = ((2, message(*zip((1, 2, 3), step, strict=True))) for step in steps)
    return 2, message((1, word), *nodes)


TREE = message(path(0, (0, 2, 0), (2, 2, 0)), path(1, (0, 2, 0), (2, 2, 1)), path(4, (0, 2, 1)))
UNEVEN = message(path(0, (0, 2, 0), (2, 3, 0)), path(1, (0, 2, 0), (2, 3, 2)), path(4, (0, 2, 1)))
FLAT = message(*(path(word, (0, 3, word)) for word in range(3)))


def hierarchical(tree: bytes, labels: Array, size: int, rows: int, least: float = 0.1) -> Spec:
    """Return a case whose stored scores and probabilities need not be those of X: Caffe2 reads them."""
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((labels.size, 2), (rows, 2)))
    stored = rng.random(size).astype("float32")
    stored[-1] = least
    inputs = {"X": x, "W": w, "b": w[:, 0], "labels": labels, "i": stored, "dY": x[:, 1]}
    return case("HSoftmaxGradient", inputs, outputs=["dX", "dW", "db", "di"], args={"hierarchy": tree})


def odd_row(row: int, value: float) -> Array:
    weights = rng.standard_normal((5, 2)).astype("float32")
    weights[row] = value
    return weights


INF, NAN = np.inf, np.nan
S, L = floats(1, 2, 3, 4), floats(0, 1, 1, 0)
CASES = [
    pairs(S, L, floats(2)),
    pairs(S, L, floats(1, 2), [2, 2]),
    pairs(S, floats(1, 1, 1, 0), floats(1, 2, 3), [2, 0, 2]),
    pairs(S, floats(1, 1, 1, 1), floats(1, 2), [3, 1]),
    pairs(S.reshape(4, 1), L, floats(1, 2), [1, 3]),
    pairs(floats(), floats(), floats(1)),
    pairs(floats(5, 5, -90, 90), floats(2, 2.5, 1, -3), floats(1)),
    *(sessions(lengths) for lengths in ([2, 0, 2], [3], [1, 1, 4])),
    hierarchical(TREE, np.array([4, 0, 1], "int32"), 20, 5),
    hierarchical(TREE, np.array([[4], [4]], "int32"), 8, 4),
    hierarchical(TREE, np.array([1, 0], "int32"), 16, 4, 0.0),
    hierarchical(FLAT, np.array([2, 0, 2, 1], "int32"), 24, 3),
    hierarchical(FLAT, np.array([0, 2], "int32"), 12, 3, 1e-21),
    # Nodes of two classes and of three, and weights of a class that are not finite.
    *(
        case(
            "HSoftmax",
            {"X": np.ones((3, 2), "float32"), "W": w, "b": w[:, 0] * 0 + 1, "labels": np.array([1, 4, 0], "int32")},
            outputs=["Y", "i"],
            args={"hierarchy": UNEVEN},
        )
        for w in (odd_row(0, np.nan), odd_row(0, np.inf), odd_row(3, -np.inf))
    ),
    # Labels that are infinite count as a pair, whose sign tells the later element; those of equal labels do not.
    *(
        pairs(floats(0.5, -0.3, 0.2, 1, 2), floats(*labels), floats(1.5, 2), lengths)
        for labels in (
            (INF, INF, 1, NAN, 2),
            (INF, 1, INF, 2, -INF),
            (NAN, 1, 2, -INF, -INF),
            (1, NAN, NAN, INF, -INF),
            (2, 1, INF, INF, INF),
        )
        for lengths in ([3, 2], [1, 4], [5, 0])
    ),
    *(
        pairs(floats(*scores), floats(*labels), floats(1))
        for scores in ((INF, 1, 2), (INF, INF, 2), (NAN, 1, 2), (1e38, -3e38, 2))
        for labels in ((1, 2, 3), (1, 1, 3), (3, 2, 1))
    ),
]
