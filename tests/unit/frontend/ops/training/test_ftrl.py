"""FTRL's weights, also where the formula of its elements is not that of the neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace

BETA, LAMBDA2, ALPHA = 1.0, 0.5, 0.25
Array = np.ndarray[Any, np.dtype[np.float32]]


def weights(state: Array, w: Array, grad: Array, lambda1: float) -> Array:
    """Return the new weights, as Caffe2 computes them."""
    n, z = state[:, 0], state[:, 1]
    new_n = n + grad * grad
    z = z + grad - (np.sqrt(new_n) - np.sqrt(n)) / np.float32(ALPHA) * w
    scale = (BETA + np.sqrt(new_n)) / np.float32(ALPHA) + np.float32(LAMBDA2)
    moved = np.sign(z) * np.float32(lambda1) - z
    found: Array = np.where(np.abs(z) > np.float32(lambda1), moved / scale, np.float32(0))
    return found


@pytest.mark.parametrize("lambda1", [0.0, 0.25, 1.0, -0.5])
@pytest.mark.parametrize("op_type", ["Ftrl", "SparseFtrl"])
def test_weights(op_type: str, lambda1: float) -> None:
    z = np.array([0, 0.25, -0.25, 0.2, -0.2, 1, -1, 3, -3, np.nan, np.inf, -np.inf, 1e-40], np.float32)
    state = np.stack([np.ones_like(z), z], axis=1)
    w, grad = np.linspace(-1, 1, len(z), dtype=np.float32), np.zeros_like(z)
    grad[-4:] = [np.nan, 0, 0, 0]
    grad[7] = 0.5
    workspace = Workspace()
    feeds = {"w": w[:, None], "state": state[:, None], "grad": grad[:, None], "ids": np.arange(len(z))}
    for name, value in feeds.items():
        workspace.feed(name, value)
    inputs = ["w", "state", "ids", "grad"] if op_type == "SparseFtrl" else ["w", "state", "grad"]
    arguments = {"alpha": ALPHA, "beta": BETA, "lambda1": lambda1, "lambda2": LAMBDA2}
    workspace.run_operator_once(operator(op_type, inputs, ["w", "state"], **arguments))
    with np.errstate(invalid="ignore"):
        expected = weights(state, w, grad, lambda1)
    np.testing.assert_array_equal(np.asarray(workspace.fetch("w"))[:, 0], expected)
