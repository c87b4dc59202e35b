"""Floats that are computed element by element between Int8 tensors keep the layout of these."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession

X = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32) * 3
BODIES = {
    "HardSwish": ("h = HardSwish(d)", 1),
    "Swish": ("a = Sigmoid(d) h = Mul(d, a)", 1),
    "numbers": ("a = Add(d, c) b = Mul(a, d) h = Clip(b, c)", 1),
    # What these read, or who reads them, is not in the layout of Int8 tensors.
    "channels": ("h = Mul(d, k)", 2),
    "along the channels": ("h = Softmax<axis = 1>(d)", 2),
    "read elsewhere": ("a = Sigmoid(d) h = Mul(d, a) r = ReduceSum(a)", 2),
}


def model_of(body: str) -> Any:
    outputs = "float[N,3,4,5] y, float r" if "r = " in body else "float[N,3,4,5] y"
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20]> g (float[N,3,4,5] x) => ({outputs})
      <float s = {{0.06}}, uint8 z = {{128}}, float c = {{0.5}}, float[3,1,1] k = {{0.5, 1.0, 2.0}}> {{
      q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) {body}
      p = QuantizeLinear(h, s, z) y = DequantizeLinear(p, s, z) }}""")


@pytest.mark.parametrize("name", BODIES)
def test_here(name: str) -> None:
    body, changes = BODIES[name]
    net = to_netdef(model_of(body), int8=True)
    kinds = Counter(op.type for op in net.predict_net.op)
    assert (kinds["NCHW2NHWC"], kinds["NHWC2NCHW"]) == (changes, changes)
    wanted = OnnxSession(model_of(body).SerializeToString()).run_values({"x": X})
    for found, value in zip(Predictor(net).run({"x": X}).values(), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=0.0601)


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    nets = [to_netdef(model_of(body), int8=True) for body, _ in BODIES.values()]
    runs = [OracleRun(net.predict_net, {"x": X}, net.init_net, ["y"]) for net in nets]
    for (name, (body, _)), result in zip(BODIES.items(), run_oracle(runs), strict=True):
        assert result.error == "", name
        wanted = OnnxSession(model_of(body).SerializeToString()).run_values({"x": X})[0]
        np.testing.assert_allclose(result.outputs["y"], wanted, rtol=0, atol=0.0601, err_msg=name)
