"""Quantized CNNs with Caffe2's Int8 operators, against onnxruntime: within a step of the last scale."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser
from support.models.quantized import calibrated, small_cnn

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession

# The types of activations and weights.
KINDS: Final = {"uint8": ("QUInt8", "QInt8"), "int8": ("QInt8", "QInt8"), "unsigned weights": ("QUInt8", "QUInt8")}


@pytest.fixture(scope="module", params=KINDS)
def quantized(request: Any, tmp_path_factory: Any) -> onnx.ModelProto:
    """A small CNN after onnxruntime's static quantization."""
    return calibrated(small_cnn(), tmp_path_factory.mktemp("quantized"), *KINDS[request.param])


def images() -> Any:
    return np.random.default_rng(7).normal(size=(4, 3, 16, 16)).astype(np.float32)


def expected(model: onnx.ModelProto) -> Any:
    return OnnxSession(model.SerializeToString()).run_values({"x": images()})[0]


def step(model: onnx.ModelProto) -> float:
    """Return the scale of the output: the last quantization of the model."""
    last = [node for node in model.graph.node if node.op_type == "QuantizeLinear"][-1]
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == last.input[1])
    return float(onnx.numpy_helper.to_array(scale).item())


def types(model: Any) -> Counter[str]:
    return Counter(op.type for op in model.predict_net.op)


def test_all_of_a_cnn_is_computed_on_bytes(quantized: onnx.ModelProto) -> None:
    found = types(to_netdef(quantized, int8=True))
    assert {kind for kind in found if not kind.startswith("Int8")} == {"NCHW2NHWC"}
    assert found["Int8Quantize"] == found["Int8Dequantize"] == found["Int8FC"] == 1
    assert found["Int8Conv"] + found["Int8ConvRelu"] == 4
    assert sum(found.values()) < len(quantized.graph.node)


def test_without_the_option_floats_are_computed(quantized: onnx.ModelProto) -> None:
    model = to_netdef(quantized)
    assert not [kind for kind in types(model) if kind.startswith("Int8")]
    assert len(model.predict_net.op) <= 3 * len(quantized.graph.node)


@pytest.mark.parametrize("int8", [False, True])
def test_weights_with_a_scale_for_each_channel_stay_floats(int8: bool, tmp_path: Path) -> None:
    model = calibrated(small_cnn(), tmp_path, "QUInt8", "QInt8", per_channel=True)
    net = to_netdef(model, int8=int8)
    assert "Int8Conv" not in types(net)
    assert len(net.predict_net.op) <= 3 * len(model.graph.node)
    found = Predictor(net).run({"x": images()})["y"]
    np.testing.assert_allclose(found, expected(model), rtol=0, atol=step(model) * 1.01)


def test_here(quantized: onnx.ModelProto) -> None:
    found = Predictor(to_netdef(quantized, int8=True)).run({"x": images()})["y"]
    np.testing.assert_allclose(found, expected(quantized), rtol=0, atol=step(quantized) * 1.01)


@pytest.mark.oracle
def test_in_real_caffe2(quantized: onnx.ModelProto) -> None:
    model = to_netdef(quantized, int8=True)
    (result,) = run_oracle([OracleRun(model.predict_net, {"x": images()}, model.init_net, ["y"])])
    assert result.error == ""
    np.testing.assert_allclose(result.outputs["y"], expected(quantized), rtol=0, atol=step(quantized) * 1.01)


def test_a_saved_model_has_int8_parameters(quantized: onnx.ModelProto, tmp_path: Path) -> None:
    from caffe2_bridge import load, save

    save(to_netdef(quantized, int8=True), tmp_path)
    filled = Counter(op.type for op in load(tmp_path).init_net.op)
    assert filled["Int8GivenTensorFill"] == filled["Int8GivenIntTensorFill"] == 5
    assert set(filled) == {"Int8GivenTensorFill", "Int8GivenIntTensorFill"}


BODIES: Final = {
    # No Int8 operator: the product of scales is not below that of the result.
    "coarse": ("s = Constant<value_float = 1.0>()", "t = Constant<value_float = 0.001>()", "Relu(d)", False),
    "same": ("s = Constant<value_float = 0.5>()", "t = Constant<value_float = 0.5>()", "Relu(d)", True),
}


@pytest.mark.parametrize("case", BODIES)
def test_what_caffe2_does_not_compute_stays_float(case: str) -> None:
    first, second, body, is_fused = BODIES[case]
    text = (
        '<ir_version: 10, opset_import: ["": 20]> g (float[N,4] x) => (float[N,4] y) '
        f"{{ z = Constant<value = uint8 {{128}}>() {first} {second} q = QuantizeLinear(x, s, z) "
        f"d = DequantizeLinear(q, s, z) r = {body} p = QuantizeLinear(r, t, z) y = DequantizeLinear(p, t, z) }}"
    )
    model = parser.parse_model(text)
    net = to_netdef(model, int8=True)
    assert ("Int8Relu" in types(net)) == is_fused
    x = np.linspace(-60, 60, 40, dtype=np.float32).reshape(10, 4) / 3
    found = Predictor(net).run({"x": x})["y"]
    np.testing.assert_allclose(found, OnnxSession(model.SerializeToString()).run_values({"x": x})[0], atol=0.51)


def test_bytes_that_the_model_outputs_stay() -> None:
    text = (
        '<ir_version: 10, opset_import: ["": 20]> g (float[N,4] x) => (uint8[N,4] q) '
        "{ s = Constant<value_float = 0.5>() z = Constant<value = uint8 {128}>() q = QuantizeLinear(x, s, z) }"
    )
    net = to_netdef(parser.parse_model(text), int8=True)
    assert not [kind for kind in types(net) if kind.startswith("Int8")]
