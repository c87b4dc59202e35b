"""Nets of Caffe2's operators alone, run in real Caffe2, and exported and run on onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import numpy_helper, parser
from support.random_values import RandomValues

from caffe2_backend.importer import to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import ConversionError
from caffe2_frontend import to_onnx

T, N, WIDTH, H = 5, 3, 4, 2

RECURRENT = {
    "lstm": ("LSTM", 4, "", 2),
    "lstm_reverse_lengths": ("LSTM", 4, 'direction = "reverse"', 2),
    "lstm_bidirectional": ("LSTM", 4, 'direction = "bidirectional"', 2),
    "lstm_functions": ("LSTM", 4, 'activations = ["HardSigmoid", "Softsign", "Elu"], activation_alpha = [0.3, 0.7]', 2),
    "lstm_input_forget": ("LSTM", 4, "input_forget = 1", 2),
    "lstm_clip": ("LSTM", 4, "clip = 0.5", 2),
    "gru": ("GRU", 3, "", 1),
    "gru_linear": ("GRU", 3, 'linear_before_reset = 1, direction = "bidirectional"', 1),
    "rnn": ("RNN", 1, 'activations = ["Relu"]', 1),
    "rnn_affine": ("RNN", 1, 'activations = ["Affine"], activation_alpha = [0.5], activation_beta = [0.1]', 1),
}


def recurrent_model(random: RandomValues, name: str, *, omitted: bool) -> tuple[onnx.ModelProto, dict[str, Any]]:
    kind, gates, attributes, states = RECURRENT[name]
    d = 2 if "bidirectional" in attributes else 1
    weights = {
        "w": random.normal(d, gates * H, WIDTH), "r": random.normal(d, gates * H, H),
        "b": random.normal(d, 2 * gates * H),
    }  # fmt: skip
    inputs: dict[str, Any] = {"x": random.normal(T, N, WIDTH)}
    declared = "float[T,N,4] x"
    operands = "x, w, r, b"
    if not omitted:
        inputs["lens"] = np.array([5, 2, 4], np.int32)
        inputs |= {f"s{i}": random.normal(d, N, H) for i in range(states)}
        declared += ", int32[N] lens" + "".join(f", float[{d},N,2] s{i}" for i in range(states))
        operands += ", lens" + "".join(f", s{i}" for i in range(states))
    else:
        operands = "x, w, r"
        del weights["b"]
    outs = ["y", "h", "c"][: 1 + states]
    ranks = [f"float[T,{d},N,2]", f"float[{d},N,2]", f"float[{d},N,2]"]
    results = ", ".join(f"{rank} {out}" for rank, out in zip(ranks, outs, strict=False))
    attributes = f"hidden_size = {H}" + (f", {attributes}" if attributes else "")
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({declared}) => ({results}) '
        f"{{ {', '.join(outs)} = {kind}<{attributes}>({operands}) }}"
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), key) for key, array in weights.items()
    )
    return model, inputs


def run_original(model: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    return OnnxSession(model.SerializeToString(), threads=1).run_values(inputs)


def run_real_caffe2(model: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    net = to_netdef(model)
    (result,) = run_oracle([OracleRun(net.predict_net, inputs, net.init_net, list(net.predict_net.external_output))])
    assert result.error == ""
    return [result.outputs[name] for name in net.predict_net.external_output]


def assert_equal(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize("omitted", [False, True])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_operators_in_real_caffe2(name: str, omitted: bool, random: RandomValues) -> None:
    model, inputs = recurrent_model(random, name, omitted=omitted)
    assert_equal(run_real_caffe2(model, inputs), run_original(model, inputs))


@pytest.mark.parametrize("omitted", [False, True])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_operators_there_and_back(name: str, omitted: bool, random: RandomValues) -> None:
    model, inputs = recurrent_model(random, name, omitted=omitted)
    assert_equal(run_original(to_onnx(to_netdef(model)), inputs), run_original(model, inputs))


CONTROL = {
    "if": """g (float[N,3] x, bool c) => (float[N,3] y) <float[3] w = {1, 2, 3}> {
        y = If(c) <then_branch = a () => (float[N,3] q) { q = Mul(x, w) },
                   else_branch = b () => (float[N,3] r) { k = Constant<value_float = 2.0>() r = Sub(x, k) }> }""",
    "loop": """g (float[N,3] x, bool c) => (float[N,3] y, float[M,N,3] s) <int64 m = {4}> {
        y, s = Loop(m, c, x) <body = b (int64 i, bool go, float[N,3] h) => (bool go2, float[N,3] h2, float[N,3] r) {
          go2 = Identity(go) f = Cast<to = 1>(i) h2 = Add(h, f) r = Mul(h2, x) }> }""",
    "loop_of_a_list": """g (float[N,3] x, bool c) => (float[N,3] y) <int64 m = {4}, int64[1] a = {0}> {
        y = Loop(m, c, x) <body = b (int64[1] i, bool go, float[N,3] h) => (bool go2, float[N,3] h2) {
          go2 = Identity(go) j = Squeeze(i, a) f = Cast<to = 1>(j) h2 = Add(h, f) }> }""",
    "loop_of_two_ranks": """g (float[N,3] x, bool c) => (float[N,3] y) <int64 m = {2}, float[3] z = {0, 0, 1}> {
        y = Loop(m, c, z) <body = b (int64 i, bool go, float[3] h) => (bool go2, float[N,3] h2) {
          go2 = Identity(go) h2 = Add(h, x) }> }""",
    "scan": """g (float[N,3] x, bool c) => (float[3] y, float[N,3] s) <float[3] z = {0, 0, 1}> {
        y, s = Scan<num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1],
          body = b (float[3] h, float[3] r) => (float[3] h2, float[3] o) { h2 = Add(h, r) o = Mul(h2, r) }>(z, x) }""",
}


def control_model(name: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {CONTROL[name]}')


def control_inputs() -> dict[str, Any]:
    return {"x": np.arange(12, dtype=np.float32).reshape(4, 3) - 5, "c": np.ones((), bool)}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CONTROL)
def test_control_operators_in_real_caffe2(name: str) -> None:
    model, inputs = control_model(name), control_inputs()
    expected = OnnxSession(model.SerializeToString(), threads=1).run_values(inputs)
    assert_equal(run_real_caffe2(model, inputs), expected)


@pytest.mark.parametrize("name", CONTROL)
def test_control_operators_there_and_back(name: str) -> None:
    model, inputs = control_model(name), control_inputs()
    again = OnnxSession(to_onnx(to_netdef(model)).SerializeToString(), threads=1)
    expected = OnnxSession(model.SerializeToString(), threads=1).run_values(inputs)
    assert_equal(again.run_values(inputs), expected)


def test_an_attribute_that_caffe2_lacks_is_a_finding() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[1,4,8,8] x) => (float[1,4,8,8] y) { y = LRN<size = 2>(x) }""")
    with pytest.raises(ConversionError, match="LRN must have an odd size"):
        to_netdef(model)


@pytest.mark.oracle
def test_shapes_are_computed_when_the_net_runs(random: RandomValues) -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[A,B] x, float[B] v) => (float[A,B] y) <int64[1] minus = {-1}, int64[1] one = {1}> {
          s = Shape(x) n = Gather(s, one) f = Concat<axis = 0>(n, minus) t = Reshape(x, f) u = Transpose(t)
          e = Expand(v, s) y = Max(e, u) }""")
    for rows, columns in ((2, 2), (3, 3)):
        inputs = {"x": random.normal(rows, columns), "v": np.arange(columns, dtype=np.float32)}
        assert_equal(run_real_caffe2(model, inputs), run_original(model, inputs))


@pytest.mark.parametrize("foreign", ["error", "carry"])
def test_a_size_of_the_exporters_example_is_not_believed(foreign: Any) -> None:
    model = parser.parse_model("""<ir_version: 9, opset_import: ["": 20]>
        g (float[N,T] x) => (float[M] z) <float[1] one = {1}, float[N,5] y, int64[1] s> {
        y = Relu(x) s = Shape<start = 1>(y) z = Expand(one, s) }""")
    back = to_onnx(to_netdef(model, foreign=foreign))
    (found,) = OnnxSession(back.SerializeToString(), "cpu").run_values({"x": np.zeros((2, 7), np.float32)})
    assert found.shape == (7,)


@pytest.mark.oracle
def test_operators_that_onnx_defines_by_others(random: RandomValues) -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[4,3] x, int64[4] k) => (float y) { y = SoftmaxCrossEntropyLoss<reduction = "sum">(x, k) }""")
    inputs = {"x": random.normal(4, 3), "k": np.array([0, 2, 1, 2])}
    assert_equal(run_real_caffe2(model, inputs), run_original(model, inputs))


DEFINED = {
    "an operand left out": """g (float[2,4,8] x, float[4,1,4] w, float[2,4,3] s) => (float[2,4,8] y, float[2,4,3] t) {
        y, t = CausalConvWithState(x, w, , s) }""",
    "an attribute left out": "g (int32 x) => (float[N] y) { y = BlackmanWindow(x) }",
    "an output left out": """g (float[2,3,4,8] q, float[2,3,6,8] k) => (float[2,3,4,8] y, float[2,3,4,6] z) {
        y, , , z = Attention(q, k, k) }""",
}


@pytest.mark.parametrize("what", DEFINED)
def test_a_definition_of_onnx_with(what: str) -> None:
    opset = 27 if "Causal" in DEFINED[what] else 23
    model = parser.parse_model(f'<ir_version: 13, opset_import: ["": {opset}]> {DEFINED[what]}')
    assert to_netdef(model).predict_net.op


def test_axes_that_follow_from_shapes_are_arguments() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[A,B,C] x) => (float y) <int64[1] one = {1}, int64 zero = {0}, int64 step = {1}> {
          s = Shape(x) n = Shape(s) m = Sub(n, one) k = Squeeze(m) a = Range(zero, k, step) y = ReduceMean(x, a) }""")
    op = to_netdef(model).predict_net.op[-1]
    assert op.type == "ReduceMean"
    assert [list(arg.ints) for arg in op.arg if arg.name == "axes"] == [[0, 1]]


def test_what_is_no_constant_and_has_no_rank_is_a_finding() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[A,B] x, int64[N] a) => (float y) { y = Unsqueeze(x, a) }""")
    with pytest.raises(ConversionError, match="the number of axes is unknown"):
        to_netdef(model)
