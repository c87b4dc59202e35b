"""CNNs of operators on quantized tensors (QLinearConv, QGemm) with Caffe2's Int8 operators, against onnxruntime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import numpy_helper, parser
from support.models.quantized import calibrated, small_cnn

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import Model

X: Final = np.random.default_rng(7).normal(size=(4, 3, 16, 16)).astype(np.float32)


@pytest.fixture(scope="module", params=["QInt8", "QUInt8"])
def quantized(request: Any, tmp_path_factory: Any) -> onnx.ModelProto:
    """A small CNN, with weights of a type; onnxruntime has no QGemm of signed activations."""
    return calibrated(small_cnn(), tmp_path_factory.mktemp("cnn"), "QUInt8", request.param, form="QOperator")


def expected(model: onnx.ModelProto) -> Any:
    return OnnxSession(model.SerializeToString()).run_values({"x": X})[0]


def step(model: onnx.ModelProto) -> float:
    """Return the scale of the output: that of the last DequantizeLinear."""
    name = model.graph.node[-1].input[1]
    return float(numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == name)).item())


def counts(model: Model) -> Counter[str]:
    return Counter(op.type for op in model.predict_net.op)


def test_each_node_is_an_int8_operator(quantized: onnx.ModelProto) -> None:
    net = to_netdef(quantized, int8=True)
    assert {kind for kind in counts(net) if not kind.startswith("Int8")} == {"NCHW2NHWC"}
    assert len(net.predict_net.op) == len(quantized.graph.node) + 1
    found = Predictor(net).run({"x": X})["y"]
    np.testing.assert_allclose(found, expected(quantized), rtol=0, atol=step(quantized) * 1.01)


def test_without_the_option_integers_are_computed(quantized: onnx.ModelProto) -> None:
    net = to_netdef(quantized)
    assert not [kind for kind in counts(net) if kind.startswith("Int8")]
    found = Predictor(net).run({"x": X})["y"]
    np.testing.assert_allclose(found, expected(quantized), rtol=0, atol=step(quantized) * 1.01)


@pytest.mark.oracle
def test_in_real_caffe2(quantized: onnx.ModelProto) -> None:
    net = to_netdef(quantized, int8=True)
    (result,) = run_oracle([OracleRun(net.predict_net, {"x": X}, net.init_net, ["y"])])
    assert result.error == ""
    np.testing.assert_allclose(result.outputs["y"], expected(quantized), rtol=0, atol=step(quantized) * 1.01)


def test_weights_with_a_scale_for_each_channel_stay_floats(tmp_path: Path) -> None:
    model = calibrated(small_cnn(), tmp_path, "QUInt8", "QInt8", per_channel=True, form="QOperator")
    net = to_netdef(model, int8=True)
    assert "Int8Conv" not in counts(net)
    found = Predictor(net).run({"x": X})["y"]
    np.testing.assert_allclose(found, expected(model), rtol=0, atol=step(model) * 2.01)


def test_a_product_of_matrices_is_a_layer() -> None:
    text = """<ir_version: 10, opset_import: ["": 20]> g (float[N,4] x) => (float[N,3] y)
      <float s = {0.02}, uint8 z = {128}, float t = {0.01}, uint8 v = {120}, float[1] u = {0.05}, uint8[1] w = {130},
       uint8[4,3] b = {1, 200, 3, 140, 5, 60, 7, 180, 90, 100, 11, 250}> {
      q = QuantizeLinear(x, s, z) p = QLinearMatMul(q, s, z, b, t, v, u, w)
      k = Squeeze(u) m = Squeeze(w) y = DequantizeLinear(p, k, m) }"""
    model = parser.parse_model(text)
    net = to_netdef(model, int8=True)
    assert list(counts(net)) == ["Int8Quantize", "Int8FC", "Int8Dequantize"]
    x = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    wanted = OnnxSession(model.SerializeToString()).run_values({"x": x})[0]
    np.testing.assert_allclose(Predictor(net).run({"x": x})["y"], wanted, rtol=0, atol=0.0501)
