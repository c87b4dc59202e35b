"""Cleaning: smaller graphs that compute the same, in bodies too."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.passes.eliminate_dead_code import EliminateDeadCode
from caffe2_frontend.passes.eliminate_redundancy import EliminateRedundancy
from caffe2_frontend.state import Export

HEAD = '<ir_version: 9, opset_import: ["" : 20]>\n'


def cleaned(text: str) -> onnx.ModelProto:
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    state = Export(NetView(NetDef()), InitNet(), model=model)
    EliminateRedundancy()(state)
    EliminateDeadCode()(state)
    assert state.model is not None
    proto = ir.to_proto(state.model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def run(model: onnx.ModelProto, **inputs: Any) -> list[Any]:
    return list(Session(model.SerializeToString(), threads=1).run(inputs).values())


X = np.array([1.0, -2.0], np.float32)


def test_dead_and_duplicate_nodes_go() -> None:
    model = cleaned("""g (float[N] x) => (float[N] y) {
        a = Relu(x) b = Relu(x) dead = Tanh(x) dead2 = Exp(dead) y = Add(a, b) }""")
    assert types(model) == ["Relu", "Add"]
    assert run(model, x=X)[0].tolist() == [2, 0]


@pytest.mark.parametrize("kind", ["RandomNormalLike", "RandomUniformLike"])
def test_what_is_random_is_no_duplicate(kind: str) -> None:
    model = cleaned(f"g (float[N] x) => (float[N] y) {{ a = {kind}(x) b = {kind}(x) y = Sub(a, b) }}")
    assert types(model) == [kind, kind, "Sub"]


def test_unused_constants_go() -> None:
    model = cleaned("g (float[N] x) => (float[N] y) <float[1] used = {2}, float[1] unused = {3}> { y = Mul(x, used) }")
    assert [tensor.name for tensor in model.graph.initializer] == ["used"]


def test_identities_go_and_outputs_keep_their_names() -> None:
    model = cleaned("""g (float[N] x) => (float[N] y, float[N] z) {
        a = Identity(x) b = Relu(a) c = Identity(b) y = Identity(c) z = Tanh(c) }""")
    assert types(model) == ["Relu", "Tanh"]
    assert [v.name for v in model.graph.output] == ["y", "z"]
    np.testing.assert_allclose(run(model, x=X)[1], np.tanh([1, 0]), rtol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "y = Identity(x)",  # an input is no output under another name
        "y = Identity(w)",  # neither is a constant
        "z = Relu(x) y = Identity(z)",
    ],
)
def test_identities_that_outputs_need_stay_or_move(body: str) -> None:
    outputs = "(float[N] y, float[N] z)" if "z =" in body else "(float[N] y)"
    model = cleaned(f"g (float[N] x) => {outputs} <float[2] w = {{1, 2}}> {{ {body} }}")
    assert types(model)[-1] == "Identity"
    assert model.graph.output[0].name == "y"
    run(model, x=X)


CAPTURE = """g (float[N] x, bool c) => (float[N] y, float[N] k) {
    k = Relu(x)
    y = If(c) <then_branch = t () => (float[N] a) { a = Identity(k) },
               else_branch = e () => (float[N] b) { n = Neg(k) b = Identity(n) }>
}"""


def test_a_body_that_passes_on_an_outer_value_leaves_it_there() -> None:
    model = cleaned(CAPTURE)
    branches = {a.name: [n.op_type for n in a.g.node] for a in model.graph.node[-1].attribute}
    assert branches == {"then_branch": ["Identity"], "else_branch": ["Neg"]}
    for condition, sign in ((True, 1), (False, -1)):
        y, k = run(model, x=X, c=np.array(condition))
        assert k.tolist() == [1, 0]
        assert (sign * y).tolist() == [1, 0]


def test_identities_inside_a_body_on_outer_values_go() -> None:
    model = cleaned("""g (float[N] x, bool c) => (float[N] y) {
        k = Relu(x)
        y = If(c) <then_branch = t () => (float[N] a) { i = Identity(k) a = Neg(i) },
                   else_branch = e () => (float[N] b) { b = Exp(k) }>
    }""")
    assert run(model, x=X, c=np.array(1, bool))[0].tolist() == [-1, 0]
    assert types(model) == ["Relu", "If"]
    assert [len(a.g.node) for a in model.graph.node[-1].attribute] == [1, 1]


def test_a_scan_that_gives_a_state_twice() -> None:
    model = cleaned("""g (float[T,N] x, float[N] s) => (float[N] last, float[T,N] all) {
        last, all = Scan <num_scan_inputs = 1, body = b (float[N] h, float[N] r) => (float[N] n, float[N] m) {
            t = Add(h, r) n = Identity(t) m = Identity(t) }> (s, x)
    }""")
    last, rows = run(model, x=np.ones((3, 2), np.float32), s=np.zeros(2, np.float32))
    assert last.tolist() == [3, 3]
    assert rows[:, 0].tolist() == [1, 2, 3]
