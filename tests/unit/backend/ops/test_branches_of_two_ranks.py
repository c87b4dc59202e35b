"""An If whose branches have values of different ranks: in our runtime, exported, and in real Caffe2."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser
from onnx.reference import ReferenceEvaluator

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.onnx_backend import prepare
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_frontend import to_onnx

BRANCHES = """y = If(c) <then_branch = a () => (float[2,3] p) { p = Neg(x) },
  else_branch = b () => (float[6] q) { f = Constant<value = int64[1] {-1}>() q = Reshape(x, f) }>"""
BODIES = {
    "an output": ("float y", ""),
    "read": ("float z", "z = Abs(y)"),
    "read and an output": ("float y, float z", "z = Add(y, y)"),
    "reshaped": ("float[6] z", "g = Constant<value = int64[1] {-1}>() z = Reshape(y, g)"),
    "in another branch": (
        "float z",
        """z = If(c) <then_branch = d () => (float p2) { p2 = Exp(y) },
        else_branch = e () => (float q2) { q2 = Abs(y) }>""",
    ),
}
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model_of(name: str, opset: int = 17) -> onnx.ModelProto:
    outputs, more = BODIES[name]
    text = (
        f'<ir_version: 8, opset_import: ["": {opset}]> g (float[2,3] x, bool c) => ({outputs}) {{ {BRANCHES} {more} }}'
    )
    model = parser.parse_model(text)
    for info in (*model.graph.output, *(o for n in model.graph.node for a in n.attribute for o in a.g.output)):
        if info.name in ("y", "z", "p2", "q2") and name != "reshaped":
            info.type.tensor_type.ClearField("shape")
    return model


def feed_of(condition: bool) -> dict[str, Any]:
    return {"x": X, "c": np.asarray(condition)}


def assert_same(ours: list[Any], model: onnx.ModelProto, feed: dict[str, Any]) -> None:
    for actual, wanted in zip(ours, ReferenceEvaluator(model).run(None, feed), strict=True):
        assert actual.shape == wanted.shape
        np.testing.assert_allclose(actual, wanted, rtol=1e-6)


@pytest.mark.parametrize("opset", [11, 17, 21])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("condition", [True, False])
def test_here(name: str, opset: int, *, condition: bool) -> None:
    model, feed = model_of(name, opset), feed_of(condition)
    assert_same(list(prepare(model).run(feed)), model, feed)
    assert_same(list(Predictor(to_netdef(model)).run(feed).values()), model, feed)


@pytest.mark.parametrize("opset", [9, 15, 20, 21])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("condition", [True, False])
def test_exported(name: str, opset: int, *, condition: bool) -> None:
    model, feed = model_of(name), feed_of(condition)
    exported = to_onnx(to_netdef(model), opset=opset)
    assert_same(OnnxSession(exported.SerializeToString(), threads=1).run_values(feed), model, feed)
    assert all(info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for info in exported.graph.output)


DECIDED = """<ir_version: 8, opset_import: ["": 17]> g (float[N,4,T] x) => (float y) {
    s = Shape(x) i = Constant<value = int64 {2}>() d = Gather(s, i) one = Constant<value = int64 {1}>()
    c = Equal(d, one)
    w = If(c) <
        then_branch = a () => (float[N,M] p) { e = Constant<value = int64[2] {0, -1}>() p = Reshape(x, e) },
        else_branch = b () => (float[N,4,T] q) { q = Identity(x) }
    >
    f = Constant<value = int64[1] {1}>() y = Unsqueeze(w, f)
}"""


@pytest.mark.parametrize("size", [1, 3])
def test_decided_by_a_dim(size: int) -> None:
    """The rank of what follows is known once the size of the input is."""
    model = parser.parse_model(DECIDED)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    x = np.arange(8 * size, dtype=np.float32).reshape(2, 4, size)
    found = Predictor(to_netdef(model)).run({"x": x})["y"]
    np.testing.assert_array_equal(found, ReferenceEvaluator(model).run(None, {"x": x})[0])


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    cases = [(name, condition) for name in BODIES for condition in (True, False)]
    runs = []
    for name, condition in cases:
        net = to_netdef(model_of(name))
        runs.append(OracleRun(net.predict_net, feed_of(condition), net.init_net, list(net.predict_net.external_output)))
    for (name, condition), run, result in zip(cases, runs, run_oracle(runs), strict=True):
        assert result.error == "", name
        assert_same([result.outputs[output] for output in run.outputs or ()], model_of(name), feed_of(condition))


# As torch exports squeeze(-1), unsqueeze(-1) and squeeze(1) of dims that it does not know. The rank of a convolution is
# that of its kernel, whatever that of its image.
SQUEEZED = """<ir_version: 8, opset_import: ["": 16]> g (float[2,3,N] x) => (float[2] z) <float[1,3,1] w = {1, 2, 3}> {
  one = Constant <value = int64[1] {1}> () two = Constant <value = int64[1] {2}> ()
  s = Shape (x) d = Gather <axis = 0> (s, two) is_one = Equal (d, one)
  y = If (is_one) <then_branch = a () => (float p) { p = Squeeze (x, two) },
    else_branch = b () => (float q) { q = Identity (x) }>
  u = If (is_one) <then_branch = e () => (float p2) { p2 = Unsqueeze (y, two) },
    else_branch = f () => (float q2) { q2 = Identity (y) }>
  c = Conv (u, w) t = Shape (c) channels = Gather <axis = 0> (t, one) is_flat = Equal (channels, one)
  h = If (is_flat) <then_branch = i () => (float p3) { p3 = Squeeze (c, one) },
    else_branch = j () => (float q3) { q3 = Identity (c) }>
  z = ReduceMean <axes = [1], keepdims = 0> (h) }"""


@pytest.mark.oracle
@pytest.mark.parametrize("size", [1, 4])
def test_convolutions_of_images_of_unknown_rank(size: int) -> None:
    model = parser.parse_model(SQUEEZED)
    for node in model.graph.node:
        for attribute in node.attribute:
            for info in attribute.g.output:
                info.type.tensor_type.ClearField("shape")
    feed = {"x": np.random.default_rng(0).normal(size=(2, 3, size)).astype(np.float32)}
    net = to_netdef(model)
    expected = OnnxSession(model.SerializeToString()).run_values(feed)[0]
    result = run_oracle([OracleRun(net.predict_net, feed, net.init_net, ["z"])])[0]
    assert result.error == ""
    for actual in (result.outputs["z"], Predictor(net).run(feed)["z"]):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
