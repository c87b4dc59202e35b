"""Sequences become tensors: the strict net against the ONNX model itself, on onnxruntime, and in real Caffe2."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.diagnostics import ConversionError

HEAD: Final = '<ir_version: 10, opset_import: ["": 20]> g (float[T,3] x, float[1,3] h) => ({outputs}) '
CONSTANTS: Final = """<bool yes = {1}, int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {-1},
  int64[2] sizes = {1, 2}, int64 count = {4}, int64[1] front = {0}>"""
LOOP: Final = """s, out = Loop(count, yes, h, start) <body = b (int64 i, bool go, float[1,3] a, seq(float[1,3]) l) =>
  (bool more, float[1,3] c, seq(float[1,3]) n) { more = Identity(go) c = Add(a, h) BODY }>"""


def loop(body: str) -> str:
    return LOOP.replace("BODY", body)


MODELS: Final = {
    "known items": (
        "float[K,3] y, float[1,3] z, int64 n",
        (
            "a = SequenceConstruct(x, h) b = SequenceInsert(a, h, zero) c = SequenceErase(b, one) "
            "y = ConcatFromSequence<axis = 0>(b) z = SequenceAt(c, last) n = SequenceLength(c)"
        ),
    ),
    "a new axis": (
        "float[1,2,3] y, float[1,3,2] z",
        (
            "e = SequenceEmpty() a = SequenceInsert(e, h) b = SequenceInsert(a, h, zero) "
            "y = ConcatFromSequence<axis = 1, new_axis = 1>(b) z = ConcatFromSequence<axis = -1, new_axis = 1>(b)"
        ),
    ),
    "rows": (
        "float[K,3] y, float[3] z, int64 n, float[3,T] t",
        (
            "a = SplitToSequence<axis = 0, keepdims = 0>(x) z = SequenceAt(a, last) n = SequenceLength(a) "
            "t = ConcatFromSequence<axis = 1, new_axis = 1>(a) "
            "b = SplitToSequence<axis = 0>(x) c = SequenceInsert(b, h) d = SequenceErase(c) e = SequenceInsert(d, h) "
            "y = ConcatFromSequence<axis = 0>(e)"
        ),
    ),
    "parts of given sizes": (
        "float[T,1] y, float[T,2] z, float[T,1] w",
        (
            "a = SplitToSequence<axis = 1>(x, sizes) y = SequenceAt(a, zero) z = SequenceAt(a, one) "
            "b = SplitToSequence<axis = -1>(x, two) w = SequenceAt(b, last)"
        ),
    ),
    "joined along another axis": (
        "float[1,K] y",
        "b = SplitToSequence<axis = 0>(x) y = ConcatFromSequence<axis = 1>(b)",
    ),
    "a loop that adds": (
        "float[1,3] s, float[4,1,3] y",
        (
            f"start = SequenceEmpty() {loop('n = SequenceInsert(l, c)')} "
            "y = ConcatFromSequence<axis = 0, new_axis = 1>(out)"
        ),
    ),
    "a loop that adds twice to what is there": (
        "float[1,3] s, float[9,3] y",
        (
            f"start = SequenceConstruct(h) {loop('m = SequenceInsert(l, c) n = SequenceInsert(m, a)')} "
            "y = ConcatFromSequence<axis = 0>(out)"
        ),
    ),
    "a loop that reads what it adds to": (
        "float[1,3] s, float[5,3] y, int64 k",
        (
            f"start = SequenceConstruct(h) "
            f"{loop('p = SequenceAt(l, last) q = Add(p, c) n = SequenceInsert(l, q)')} "
            "y = ConcatFromSequence<axis = 0>(out) k = SequenceLength(out)"
        ),
    ),
    "a loop that only reads": (
        "float[1,3] s, float[3] y",
        (
            f"start = SplitToSequence<axis = 0, keepdims = 0>(x) "
            f"{loop('n = Identity(l)').replace('c = Add(a, h)', 'w = SequenceAt(l, i) c = Add(a, w)')} "
            "y = SequenceAt(out, one)"
        ),
    ),
    "a branch": (
        "float[K,3] y",
        (
            "a = SplitToSequence<axis = 0>(x) r = ReduceSum<keepdims = 0>(x) t = Cast<to = 9>(r) "
            "o = If(t) <then_branch = p () => (seq(float[1,3]) u) { u = SequenceInsert(a, h) }, "
            "else_branch = q () => (seq(float[1,3]) v) { v = Identity(a) }> y = ConcatFromSequence<axis = 0>(o)"
        ),
    ),
    "a map": (
        "float[K,3] y",
        (
            "a = SplitToSequence<axis = 0>(x) "
            "b = SequenceMap(a) <body = p (float[1,3] u) => (float[1,3] v) { v = Neg(u) }> "
            "y = ConcatFromSequence<axis = 0>(b)"
        ),
    ),
}


def model(name: str) -> Any:
    outputs, body = MODELS[name]
    return parser.parse_model(f"{HEAD.replace('{outputs}', outputs)}{CONSTANTS} {{ {body} }}")


def inputs(steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(steps)
    return {"x": rng.normal(size=(steps, 3)).astype(np.float32), "h": rng.normal(size=(1, 3)).astype(np.float32)}


def expected(name: str, steps: int) -> dict[str, Any]:
    proto = model(name)
    values = OnnxSession(proto.SerializeToString(), threads=1).run_values(inputs(steps))
    return dict(zip((value.name for value in proto.graph.output), values, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_on_onnxruntime(name: str) -> None:
    predictor = Predictor(to_netdef(model(name)))
    for steps in (4, 6):
        found = predictor.run(inputs(steps))
        for output, value in expected(name, steps).items():
            np.testing.assert_allclose(found[output], value, rtol=1e-5, err_msg=output)
            assert np.asarray(found[output]).shape == np.asarray(value).shape


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    runs = []
    for name in MODELS:
        made = to_netdef(model(name))
        runs += [
            OracleRun(made.predict_net, inputs(steps), made.init_net, list(expected(name, steps))) for steps in (4, 6)
        ]
    for number, result in enumerate(run_oracle(runs)):
        name, steps = list(MODELS)[number // 2], (4, 6)[number % 2]
        assert not result.error, f"{name}: {result.error}"
        for output, value in expected(name, steps).items():
            np.testing.assert_allclose(result.outputs[output], value, rtol=1e-5, err_msg=f"{name}: {output}")


def test_a_sequence_of_a_loop_that_leaves_one_branch_alone_is_refused() -> None:
    body = (
        "r = ReduceSum<keepdims = 0>(x) t = Cast<to = 9>(r) start = SequenceConstruct(h) o = If(t) "
        f"<then_branch = p () => (seq(float[1,3]) out) {{ {loop('n = SequenceInsert(l, c)')} }}, "
        "else_branch = q () => (seq(float[1,3]) v) { e = SequenceEmpty() v = SequenceErase(e) }> "
        "y = ConcatFromSequence<axis = 0>(o)"
    )
    text = f"{HEAD.replace('{outputs}', 'float[K,3] y')}{CONSTANTS} {{ {body} }}"
    with pytest.raises(ConversionError) as raised:
        to_netdef(parser.parse_model(text))
    assert "internal-error" not in {each.code for each in raised.value.findings}


def test_what_stays_a_sequence_is_told() -> None:
    """A loop cannot read a sequence that holds nothing at first: as a tensor it would have no shape."""
    body = f"start = SequenceEmpty() {loop('k = SequenceLength(l) n = SequenceInsert(l, c)')} y = SequenceAt(out, last)"
    text = f"{HEAD.replace('{outputs}', 'float[1,3] y')}{CONSTANTS} {{ {body} }}"
    with pytest.raises(ConversionError) as raised:
        to_netdef(parser.parse_model(text))
    assert {"SequenceEmpty", "SequenceInsert", "SequenceAt"} <= {
        each.location.op_type for each in raised.value.findings
    }
