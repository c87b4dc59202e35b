"""ONNX -> NetDef -> ONNX: models with functions, bodies and recurrent operators compute the same afterwards.

ONNX's own backend suite makes the same way (``tests/onnx_suite``), a node or a model at a time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import parser
from support.random_values import RandomValues

from caffe2_backend import to_netdef
from caffe2_backend.options import Foreign
from caffe2_backend.runtime import SessionOptions
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_frontend import to_onnx

Array = np.ndarray[Any, Any]

FUNCTIONS: Final = """<ir_version: 10, opset_import: ["": 20, "own": 1]>
g (float[N,3] x, float[3] w) => (float[N,3] y, float[N,3] z) {
  t = own.Gate <scale = 0.5> (x, w)
  y = own.Twice (t)
  z = Sub(y, x)
}
<domain: "own", opset_import: ["": 20, "own": 1]> Gate <scale> (a, b) => (c) {
  s = Constant <value_float: float = @scale> ()
  m = Mul(a, b)
  n = Mul(m, s)
  c = Sigmoid(n)
}
<domain: "own", opset_import: ["": 20]> Twice (a) => (c) { c = Add(a, a) }"""

BRANCHES: Final = """<ir_version: 10, opset_import: ["": 20]>
g (float[N,3] x, bool go) => (float[N,3] y, float[N,3] z) {
  y, z = If (go) <
    then_branch = yes () => (float[N,3] a, float[N,3] b) { t = Relu(x) a = Add(t, x) b = Neg(t) },
    else_branch = no () => (float[N,3] c, float[N,3] d) { t = Tanh(x) c = Mul(t, x) d = Identity(t) }
  >
}"""

LOOP: Final = """<ir_version: 10, opset_import: ["": 20]>
g (float[2,3] x, int64 trips) => (float[2,3] last, float[T,2,3] all) <bool yes = {1}> {
  last, all = Loop (trips, yes, x) <
    body = step (int64 i, bool before, float[2,3] s) => (bool after, float[2,3] next, float[2,3] row) {
      after = Identity(before) n = Cast<to = 1>(i) t = Add(s, n) next = Sigmoid(t) row = Mul(next, x)
    }
  >
}"""

SCAN: Final = """<ir_version: 10, opset_import: ["": 20]>
g (float[2] start, float[T,2] x) => (float[2] last, float[T,2] all) {
  last, all = Scan <num_scan_inputs = 1,
    body = step (float[2] s, float[2] row) => (float[2] next, float[2] out) {
      next = Add(s, row) out = Tanh(next)
    }
  > (start, x)
}"""

VALUES: Final = RandomValues("cases")

CASES: Final[dict[str, tuple[str, dict[str, Array]]]] = {
    "functions": (FUNCTIONS, {"x": VALUES.normal(4, 3), "w": VALUES.normal(3)}),
    "then": (BRANCHES, {"x": VALUES.normal(2, 3), "go": np.array(True)}),  # noqa: FBT003 - a value, no flag
    "else": (BRANCHES, {"x": VALUES.normal(2, 3), "go": np.array(False)}),  # noqa: FBT003
    "loop": (LOOP, {"x": VALUES.normal(2, 3), "trips": np.array(4)}),
    "scan": (SCAN, {"start": VALUES.normal(2), "x": VALUES.normal(5, 2)}),
}


@pytest.mark.parametrize("foreign", ["carry", "error"])
@pytest.mark.parametrize("name", CASES)
def test_the_way_through_a_net(name: str, foreign: Foreign) -> None:
    text, inputs = CASES[name]
    model = parser.parse_model(text)
    onnx.checker.check_model(model, full_check=True)
    net = to_netdef(model, foreign=foreign)
    again = to_onnx(net)
    assert [value.name for value in again.graph.output] == [value.name for value in model.graph.output]
    compare(model, again, inputs)
    # And once more: what went out as Caffe2's operators is recognized.
    twice = to_netdef(again, foreign=foreign)
    compare(model, to_onnx(twice), inputs)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_operators(kind: str, direction: str, random: RandomValues) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    count, hidden, features = 2 if direction == "bidirectional" else 1, 3, 2
    states = ", h_last, c_last" if kind == "LSTM" else ", h_last"
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20]>
g (float[T,N,{features}] x, int32[N] lengths) => (float[T,{count},N,{hidden}] y) <
  float[{count},{gates * hidden},{features}] w, float[{count},{gates * hidden},{hidden}] r> {{
  y{states} = {kind} <hidden_size = {hidden}, direction = "{direction}"> (x, w, r, , lengths)
}}""")
    for name, shape in (("w", (count, gates * hidden, features)), ("r", (count, gates * hidden, hidden))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(random.normal(*shape), name))
    inputs = {"x": random.normal(4, 3, features), "lengths": np.array([4, 2, 1], np.int32)}
    net = to_netdef(model)
    assert {op.type for op in net.predict_net.op} >= {"RecurrentNetwork"}
    again = to_onnx(net, recurrent="scan")
    compare(model, again, inputs)
    twice = to_netdef(again)
    assert [op.type for op in twice.predict_net.op].count("RecurrentNetwork") == count
    compare(model, to_onnx(twice), inputs)


def compare(model: onnx.ModelProto, again: onnx.ModelProto, inputs: dict[str, Array]) -> None:
    expected = OnnxSession(model.SerializeToString()).run_values(inputs)
    for options in (SessionOptions(), SessionOptions(optimization="none")):
        found = OnnxSession(again.SerializeToString(), options=options).run_values(inputs)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
