"""Sigmoids that a logarithm reads are computed with all digits, others stay as they are."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.options import ExportOptions
from caffe2_frontend.passes.expand_sigmoids import ExpandSigmoids
from caffe2_frontend.state import Export

HEAD = '<ir_version: 9, opset_import: ["" : 20]>\n'
EXPANDED = ["Neg", "Softplus", "Neg", "Exp"]
LOGARITHM = HEAD + "g (float[N] x) => (float[N] y) { p = Sigmoid(x) y = Log(p) }"
IN_A_BODY = (
    HEAD
    + """g (float[N] x, bool c) => (float[N] y) {
    p = Sigmoid(x)
    y = If (c) <then_branch = t () => (float[N] a) { a = Log(p) },
                else_branch = e () => (float[N] b) { q = Sigmoid(p) b = Log(q) }>
}"""
)


def expanded(text: str, *, fp16: bool = False) -> onnx.ModelProto:
    """Return a model after the pass. Its values may have names with a slash, which the text writes ``__``."""
    model = infer_shapes(onnx.parser.parse_model(text), strict_mode=True)
    for node in model.graph.node:
        node.input[:] = [name.replace("__", "/") for name in node.input]
        node.output[:] = [name.replace("__", "/") for name in node.output]
    inferred = ir.from_proto(infer_shapes(model))
    state = Export(NetView(NetDef()), InitNet(), model=inferred, options=ExportOptions(fp16=fp16))
    ExpandSigmoids()(state)
    assert state.model is not None
    changed = ir.to_proto(state.model)
    onnx.checker.check_model(changed, full_check=True)
    return changed


def kinds(model: onnx.ModelProto) -> list[str]:
    """Return the types of the nodes, those of bodies behind the node that has them."""
    return [node.op_type for node in ir.from_proto(model).graph.all_nodes()]


@pytest.mark.parametrize(
    "tail",
    [
        "y = Log(p)",
        "q = Clip(p, low) y = Log(q)",
        "q = Concat<axis = 0>(p, p) r = Gather<axis = 0>(q, i) y = Log(r)",
        "q, r = Split<axis = 0, num_outputs = 2>(p) y = Log(r)",
        "q = Div(one, p) y = Log(q)",
    ],
)
def test_a_sigmoid_that_is_read_near_0_is_expanded(tail: str) -> None:
    constants = "float low = {-1.5}, float one = {1.0}, int64[2] i = {0, 1}"
    model = expanded(HEAD + f"g (float[4] x) => (y) <{constants}> {{ p = Sigmoid(x) {tail} }}")
    assert kinds(model)[: len(EXPANDED)] == EXPANDED


@pytest.mark.parametrize(
    "tail",
    [
        "y = Mul(x, p)",
        "q = Sub(one, p) y = Log(q)",  # the difference is as exact as 1
        "y = Div(p, x)",
        "q = Tanh(p) y = Log(q)",
        "y = Greater(p, one)",
        "y = Div(x, p)",
        "y = Pow(p, one)",
        "y = Reciprocal(p)",
        "y = Sqrt(p)",
    ],
)
def test_another_sigmoid_stays(tail: str) -> None:
    model = expanded(HEAD + f"g (float[4] x) => (y) <float one = {{1.0}}> {{ p = Sigmoid(x) {tail} }}")
    assert kinds(model)[0] == "Sigmoid"


def test_of_bodies_and_what_they_read() -> None:
    found = kinds(expanded(IN_A_BODY))
    assert "Sigmoid" not in found
    assert found.count("Softplus") == 2


def test_results_have_all_digits() -> None:
    x = np.array([-86, -40, -20, -10, -1, 0, 1, 20, 100, np.inf], np.float32)
    (y,) = ort.InferenceSession(expanded(LOGARITHM).SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(y, -np.logaddexp(0, -x.astype(np.float64)), rtol=1e-6, atol=1e-7)


def test_names_stay_unique() -> None:
    model = expanded(HEAD + "g (float[N] x) => (float[N] y) { p__Neg = Abs(x) p = Sigmoid(p__Neg) y = Log(p) }")
    names = [name for node in model.graph.node for name in node.output]
    assert "p/Neg" in names
    assert len(set(names)) == len(names) == 6


def test_half_precision_keeps_the_sigmoid() -> None:
    assert kinds(expanded(LOGARITHM, fp16=True)) == ["Sigmoid", "Log"]


def test_doubles_keep_the_sigmoid() -> None:
    assert kinds(expanded(LOGARITHM.replace("float[N]", "double[N]"))) == ["Sigmoid", "Log"]
