"""Scalars that are combined with large tensors whose last dim is 1."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_backend.runtime.sessions.wide_scalars import widen_scalars

WEIGHTS = np.random.default_rng(0).standard_normal((64, 32, 1, 1), dtype=np.float32)
RATE = np.array(-0.5, np.float32)


MODEL = """
<ir_version: 9, opset_import: ["" : 18]>
steps (float{w} w, float{rate} rate) => (float{w} y) <float{w} step, float{w} sum> {{
    step = Mul (w, rate)
    sum = Add (w, step)
    y = Sub (rate, sum)
}}
"""


def steps(shape: tuple[int, ...], rate: tuple[int, ...]) -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL.format(w=list(shape), rate=list(rate) or ""))


@pytest.mark.parametrize("rate", [(), (1,), (1, 1)])
def test_a_scalar_is_reshaped_once(rate: tuple[int, ...]) -> None:
    model = steps(WEIGHTS.shape, rate)
    given = {"w": WEIGHTS, "rate": RATE.reshape(rate)}
    before = OnnxSession(model.SerializeToString()).run(given)["y"]
    widen_scalars(model)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Reshape", "Mul", "Add", "Sub"]
    assert [list(node.input) for node in model.graph.node[1:]] == [
        ["w", "rate/wide_4"], ["w", "step"], ["rate/wide_4", "sum"]
    ]  # fmt: skip
    np.testing.assert_array_equal(OnnxSession(model.SerializeToString()).run(given)["y"], before)


@pytest.mark.parametrize(
    ("shape", "rate"),
    [
        ((64, 32), ()),
        ((4, 4, 1, 1), ()),
        ((64, 32, 1, 1), (1, 1, 1, 1)),
        ((64, 1, 32), ()),
        ((64, 32, 1, 1), (32, 1, 1)),
    ],
)
def test_others_stay(shape: tuple[int, ...], rate: tuple[int, ...]) -> None:
    model = steps(shape, rate)
    before = model.SerializeToString(deterministic=True)
    widen_scalars(model)
    assert model.SerializeToString(deterministic=True) == before
