"""YellowFin: the first step, one that fills its window, one that starts it again, and one of infinite curvatures."""

from __future__ import annotations

import numpy as np
from conformance.recording import Spec, case, generator

NAMES = ("param", "moment", "rate", "factor", "window", "mean", "mean_square", "memory")


def step(iteration: int, *shape: int, curvature: float = 1.0, axes: int = 0, **args: float) -> Spec:
    """Return a step of a parameter of a shape; ``axes`` more than one of the window."""
    rng = generator(iteration)
    width = int(args.get("curv_win_width", 20))
    shapes = (shape, shape, (1,), (1,), (width,), shape, shape, (5,))
    inputs = {name: rng.uniform(0.1, 0.9, s).astype(np.float32) for name, s in zip(NAMES, shapes, strict=True)}
    inputs["window"] *= np.float32(curvature)
    inputs["window"] = inputs["window"].reshape(width, *[1] * axes)
    inputs |= {"grad": rng.standard_normal(shape, dtype=np.float32), "iter": np.array([iteration], np.int64)}
    return case("YellowFin", inputs, outputs=NAMES, args=args)


CASES = [
    *(step(i, 3, 4, curv_win_width=5) for i in (1, 2, 5, 6, 23)),
    *(step(i, 6, nesterov=1) for i in (1, 4)),
    step(3, 2, 2, 2, zero_debias=0, beta=0.9),
    step(30, 4, zero_debias=0, nesterov=1, epsilon=1e-2),
    step(3, 1, beta=0.9, curvature=1000.0),
    step(4, 2, epsilon=float("nan")),
    step(3, 2, beta=1.0, curvature=500.0),
    step(3, 2, axes=1),
    # The averages have a negative variance, which no epsilon bounds.
    *(step(i, n, epsilon=epsilon, beta=0.9) for i in (2, 4, 7) for n in (1, 3) for epsilon in (float("nan"), -10.0)),
]
