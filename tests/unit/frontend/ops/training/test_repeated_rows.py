"""Rows that are updated several times in a step: one update after another, in the order of the indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace

Array = np.ndarray[Any, np.dtype[np.float32]]
ROWS, WIDTH = 7, 3
RATE, MOMENTUM = np.float32(-0.25), np.float32(0.5)


def drawn(count: int) -> dict[str, Any]:
    random = np.random.default_rng(count)
    return {
        "table": random.standard_normal((ROWS, WIDTH)).astype(np.float32),
        "moment": random.random((ROWS, WIDTH)).astype(np.float32),
        "ids": np.minimum(random.zipf(1.5, count) - 1, ROWS - 1),
        "grad": random.standard_normal((count, WIDTH)).astype(np.float32),
        "lr": np.array([RATE]),
    }


def after(op_type: str, feeds: dict[str, Any], inputs: list[str], outputs: list[str], **arguments: Any) -> list[Array]:
    workspace = Workspace()
    for name, value in feeds.items():
        workspace.feed(name, value)
    workspace.run_operator_once(operator(op_type, inputs, outputs, **arguments))
    return [np.asarray(workspace.fetch(name)) for name in outputs]


@pytest.mark.parametrize("count", [2, 3, 20, 200])
def test_adagrad(count: int) -> None:
    feeds = drawn(count)
    table, moment = feeds["table"].copy(), feeds["moment"].copy()
    for i, grad in zip(feeds["ids"], feeds["grad"], strict=True):
        moment[i] += grad * grad
        table[i] += RATE / (np.sqrt(moment[i]) + np.float32(1e-5)) * grad
    found = after("SparseAdagrad", feeds, ["table", "moment", "ids", "grad", "lr"], ["table", "moment"])
    np.testing.assert_array_equal(found[1], moment)
    np.testing.assert_allclose(found[0], table, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", [2, 3, 20, 200])
def test_momentum_and_adjusted_gradients(count: int) -> None:
    """Check that the adjusted gradients have a row for each index, not for each distinct one."""
    feeds = drawn(count)
    table, moment, adjusted = feeds["table"].copy(), feeds["moment"].copy(), np.empty_like(feeds["grad"])
    for position, (i, grad) in enumerate(zip(feeds["ids"], feeds["grad"], strict=True)):
        moment[i] = adjusted[position] = RATE * grad + MOMENTUM * moment[i]
        table[i] -= adjusted[position]
    names = ["grad", "moment", "lr", "table", "ids"]
    arguments = {"momentum": float(MOMENTUM), "nesterov": 0}
    found = after("SparseMomentumSGDUpdate", feeds, names, ["grad", "moment", "table"], **arguments)
    for value, expected in zip(found, (adjusted, moment, table), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
