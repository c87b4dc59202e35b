"""Gradients of softmax and of fully connected layers: weights that sum to 0, averages by rows, empty batches."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

rng = generator(0)
P = np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]], "float32")
LIKELY = np.array([[0.5, 0.5, 0], [0, 0, 1]], "float32")
LABELS = np.array([2, 0], "int32")


def loss(labels: np.ndarray[Any, Any], weights: list[float] | None, rows: int = 2, **args: Any) -> Spec:
    given = {} if weights is None else {"w": np.array(weights, "float32")[:rows]}
    inputs = {"X": P[:rows], "l": labels[:rows], **given, "p": P[:rows], "d": np.array(3, "float32")}
    return case("SoftmaxWithLossGradient", inputs, outputs=["dX"], args=args)


def product(kind: str, shape: tuple[int, ...], rows: int, columns: int = 4) -> Spec:
    w = rng.standard_normal(shape).astype("float32")
    x = rng.standard_normal((rows, 3)).astype("float32")
    dy = rng.standard_normal((rows, columns)).astype("float32")
    return case(kind, {"X": x, "W": w, "dY": dy}, outputs=["dW", "db", "dX"])


CASES = [
    *(
        loss(labels, weights, average_by_batch_size=by_rows, **args)
        for labels, args in ((LABELS, {}), (LIKELY, {"label_prob": 1}))
        for weights in (None, [2.0, 0.5], [0.0, 0.0])
        for by_rows in (0, 1)
    ),
    loss(LABELS, [1.0, 2.0], scale=2.0),
    loss(LABELS, None, rows=0),
    *(product("FCGradient", (4, 3), rows) for rows in (0, 1, 5)),
    *(product("FCTransposedGradient", (3, 4), rows) for rows in (0, 1, 5)),
    *(
        loss(LABELS, weights, average_by_batch_size=by_rows, scale=2.0)
        for weights in ([2.0, -3.0], [2.0, -2.0], [1.0, 3.0])
        for by_rows in (0, 1)
    ),
]

PIXELS = np.array([[[[0.2, 0.5]], [[0.3, 0.4]], [[0.5, 0.1]]]], "float32")

CASES += [
    # The gradient of the loss of pixels has the scale, but where no pixel counts.
    *(
        case(
            "SpatialSoftmaxWithLossGradient",
            {"X": PIXELS, "label": labels, **weights, "P": PIXELS, "dloss": np.array(0.7, "float32")},
            outputs=["dX"],
            args={"scale": scale},
        )
        for labels in (np.array([[[0, -1]]], "int32"), np.array([[[-1, -1]]], "int32"))
        for weights in ({}, {"w": np.array([[[0.5, 1.5]]], "float32")})
        for scale in (2.5, 0.0, -1.0)
    ),
]
