"""States of optimizers that are fed as zeros of another element type, as programs do: real Caffe2 retypes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from numpy.testing import assert_array_equal

from caffe2_backend import Workspace
from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

STEPS = {
    "Adadelta": (["w", "m", "n", "g", "lr"], ["w", "m", "n"]),
    "Adagrad": (["w", "m", "g", "lr"], ["w", "m"]),
    "Adam": (["w", "m", "n", "g", "lr", "iter"], ["w", "m", "n"]),
    "MomentumSGDUpdate": (["g", "m", "lr", "w"], ["g", "m", "w"]),
    "RowWiseSparseAdagrad": (["w", "rows", "i", "part", "lr"], ["w", "rows"]),
    "SparseAdagrad": (["w", "m", "i", "part", "lr"], ["w", "m"]),
    "SparseMomentumSGDUpdate": (["part", "m", "lr", "w", "i"], ["part", "m", "w"]),
}


def after(op_type: str, dtype: Any, fill: int = 0) -> dict[str, Any]:
    """Return the blobs after two steps of an optimizer, whose states were fed with this element type."""
    ws = Workspace()
    blobs: dict[str, Any] = {
        "w": np.ones((4, 2), np.float32), "g": np.ones((4, 2), np.float32), "part": np.ones((2, 2), np.float32),
        "i": np.array([1, 3]), "lr": np.array([0.1], np.float32), "iter": np.array([1]),
        "m": np.full((4, 2), fill, dtype), "n": np.full((4, 2), fill, dtype), "rows": np.full(4, fill, dtype),
    }  # fmt: skip
    inputs, outputs = STEPS[op_type]
    for name in inputs:
        ws.feed(name, blobs[name])
    ws.create_net(NetDef(name="step", op=[operator(op_type, inputs, outputs)]))
    ws.run_net("step")
    ws.run_net("step")
    return {name: np.asarray(ws.fetch(name)) for name in outputs}


@pytest.mark.parametrize("op_type", sorted(set(STEPS) - {"SparseMomentumSGDUpdate"}))
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_zeros_become_floats(op_type: str, dtype: Any) -> None:
    expected = after(op_type, np.float32)
    for name, value in after(op_type, dtype).items():
        assert value.dtype == np.float32
        assert_array_equal(value, expected[name])


def test_what_caffe2_refuses_is_refused() -> None:
    with pytest.raises(ConversionError, match="must be FLOAT or FLOAT16, not INT64"):
        after("SparseMomentumSGDUpdate", np.int64)
    with pytest.raises(ConversionError, match="must be FLOAT or FLOAT16, not INT64"):
        after("Adagrad", np.int64, fill=1)  # whose bytes would be read as other numbers
