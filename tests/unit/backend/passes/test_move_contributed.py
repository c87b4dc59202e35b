"""Models as onnxruntime reads them: its operators in ONNX's domain, and domains of which the model names no opset.

Modules: move_contributed.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from support.random_values import RandomValues

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession

NORMALIZED = "g (float[N,4] x, float[4] s) => (float[N,4] y) { y = LayerNormalization <epsilon = 0.01> (x, s) }"
LINEAR = """g (float[N,2] x) => (int64[N] y, float[N,2] p) {
  y, p = ai.onnx.ml.LinearClassifier
    <classlabels_ints = [3, 5], coefficients = [1.0, 2.0, 2.0, 1.0], intercepts = [0.0, 0.0]> (x) }"""
ATTENTION = """g (float[2,5,4] x, float[4,12] w, float[12] s, float[2,5] m) => (float[2,5,4] y) {
  mask = Cast <to = 6> (m) y = com.microsoft.Attention <num_heads = 2> (x, w, s, mask) }"""


def model_of(graph: str, domain: str, version: int) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["{domain}": {version}]> {graph}')


@pytest.mark.parametrize(
    ("graph", "domain", "version"),
    [
        (NORMALIZED, "", 9), (NORMALIZED, "", 16), (NORMALIZED, "ai.onnx", 12), (NORMALIZED, "", 17),
        (ATTENTION, "", 13), (LINEAR, "ai.onnx.ml", 1),
    ],
)  # fmt: skip
def test_a_model_runs_as_in_onnxruntime(graph: str, domain: str, version: int, random: RandomValues) -> None:
    model = model_of(graph, domain, version)
    shapes = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    feed = {name: random.normal(*(dim.dim_value or 3 for dim in shape)) for name, shape in shapes.items()}
    net = to_netdef(model)
    assert not any(op.domain for op in net.predict_net.op)
    expected = OnnxSession(model.SerializeToString()).run_values(feed)
    for wanted, value in zip(expected, Predictor(net).run(feed).values(), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_a_normalization_of_opset_17_is_onnx_own() -> None:
    net = to_netdef(model_of(NORMALIZED, "", 17))
    assert [op.type for op in net.predict_net.op] == ["LayerNorm"]
