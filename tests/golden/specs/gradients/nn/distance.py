"""Gradients of distances: norms of 0, scalars, empty batches, and rows of different lengths."""

import numpy as np
from conformance.recording import Spec, case, generator

rng = generator(0)


def distances(x: np.ndarray, y: np.ndarray) -> list[Spec]:  # type: ignore[type-arg] # of float32
    dz = rng.standard_normal(x.shape[0] if x.ndim else 1).astype("float32")
    kinds = ["SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity"]
    return [case(f"{kind}Gradient", {"X": x, "Y": y, "dZ": dz}, outputs=["dX", "dY"]) for kind in kinds]


def padded(columns: tuple[int, int], rows: int = 3, replicate: int = 0) -> Spec:
    x, y = (rng.standard_normal((rows, count)).astype("float32") for count in columns)
    inputs = {"X": x, "Y": y, "dZ": rng.standard_normal(rows).astype("float32")}
    args = {"pad_value": 0.5, "replicate": replicate}
    return case("DotProductWithPaddingGradient", inputs, outputs=["dX", "dY"], args=args)


def floats(*shape: int) -> np.ndarray:  # type: ignore[type-arg] # of float32
    return rng.standard_normal(shape).astype("float32")


NEAR = np.array([[1, 2, 3, 1], [0, 0, 0, 0], [1e-7, 0, 0, 0], [1, 2, 3, 4]], "float32")
FAR = np.array([[1, 2.5, 1, 1], [1, 2, 3, 4], [1, 1e-13, 0, 0], [0, 0, 0, 0]], "float32")
CASES = [
    *distances(NEAR, FAR),
    *distances(floats(2, 3, 2), floats(2, 3, 2)),
    *distances(np.array(2, "float32"), np.array(5, "float32")),
    *distances(floats(0, 3), floats(0, 3)),
    *distances(floats(4), floats(4)),
    *(padded(columns) for columns in ((5, 2), (2, 5), (3, 3))),
    *(padded(columns, replicate=1) for columns in ((6, 2), (2, 4), (3, 3))),
    # Differences from 0, the last ones below what counts as 0.
    case(
        "L1DistanceGradient",
        {
            "X": np.array([[1.5, -2.0, 0.0, 1e-11, -1e-11, 1e-13, -1e-13, np.nan]], "float32"),
            "Y": np.zeros((1, 8), "float32"),
            "dZ": np.array([np.inf], "float32"),
        },
        outputs=["dX", "dY"],
    ),
]
