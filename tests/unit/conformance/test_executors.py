"""Running models: a loop without an end is stopped, and optimizations can be left out."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from conformance.executors import OnnxRuntime

_ENDLESS = """
<ir_version: 8, opset_import: ["" : 17]>
endless (bool go, float x) => (float y) {
    y = Loop (, go, x) <body = body (int64 i, bool keeps, float s) => (bool goes_on, float next) {
        goes_on = Identity (keeps)
        next = Identity (s)
    }>
}
"""


def test_a_loop_without_end_is_stopped() -> None:
    runtime = OnnxRuntime(onnx.parser.parse_model(_ENDLESS), seconds=0.2)
    assert runtime.run({"go": np.zeros((), bool), "x": np.array(2, np.float32)}) == [2]
    with pytest.raises(TimeoutError, match="no result after 0 seconds"):
        runtime.run({"go": np.ones((), bool), "x": np.array(2, np.float32)})


def test_a_model_without_optimizations() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int64[N] d, int64[N] y) => (int64[N] z)
    <int64[1] one = {1}> { q = Div(one, d) z = Mul(q, y) }"""
    runtime = OnnxRuntime(onnx.parser.parse_model(text))
    given = {"d": np.array([5, 1, 3]), "y": np.array([5, 4, -9])}
    assert runtime.plain is runtime.plain
    assert runtime.plain.plain is runtime.plain
    assert runtime.plain.run(given)[0].tolist() == [0, 4, 0]
    assert runtime.run(given)[0].tolist() == [1, 4, -3]  # onnxruntime 1.32: DivMulFusion
