"""Sessions do without the optimizations that would change integers, and with them elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from caffe2_backend import Predictor, run_model, validate
from caffe2_backend.runtime.sessions.unsafe_optimizers import failed_optimizers, unsafe_optimizers

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '
PAIR = "q = Div(one, d) z = Mul(q, y)"
INTEGERS = "g (int64[N] d, int64[N] y) => (int64[M] z) "
FLOATS = INTEGERS.replace("int64", "float")
TYPED = {
    "initializer": f"{INTEGERS} <int64[1] one = {{1}}> {{ {PAIR} }}",
    "constant": f"{INTEGERS} {{ one = Constant<value = int64[1] {{1}}>() {PAIR} }}",
    "cast": f"{INTEGERS} <float[1] f = {{1}}> {{ one = Cast<to = 7>(f) {PAIR} }}",
    "shape": "g (int64[N] d, int64[N] y, float[1] x) => (int64[M] z) { one = Shape(x) " + PAIR + " }",
    "body": "g (bool c, int64[N] d, int64[N] y) => (int64[M] z) <int64[1] one = {1}> { z = If(c) "
    "<then_branch = t () => (int64[M] z1) { q = Div(one, d) z1 = Mul(y, q) }, "
    "else_branch = e () => (int64[M] z2) { z2 = Identity(d) }> }",
}  # fmt: skip
SAFE = {
    "floats": f"{FLOATS} <float[1] one = {{1}}> {{ {PAIR} }}",
    "float constant": f"{FLOATS} {{ one = Constant<value = float[1] {{1}}>() {PAIR} }}",
    "computed": f"{INTEGERS} {{ one = Sub(d, y) {PAIR} }}",
    "sum": f"{INTEGERS} <int64[1] one = {{1}}> {{ q = Div(one, d) z = Add(q, y) }}",
    "no division": f"{INTEGERS} {{ z = Mul(d, y) }}",
}
D, Y = np.array([5, 1, -1, 3]), np.array([5, 4, 3, -9])


@pytest.mark.parametrize("kind", TYPED)
def test_integers_are_not_fused(kind: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(HEAD + TYPED[kind])
    onnx.save(model, tmp_path / "m.onnx")
    for form in (model.SerializeToString(), str(tmp_path / "m.onnx")):
        assert unsafe_optimizers(form) == ("DivMulFusion",)
    given = {"d": D, "y": Y}
    given |= {"x": np.ones(1, np.float32)} if kind == "shape" else {}
    given |= {"c": np.ones((), bool)} if kind == "body" else {}
    assert Predictor(model).run(given)["z"].tolist() == [0, 4, -3, 0]
    assert run_model(model, given)[0].tolist() == [0, 4, -3, 0]
    assert validate(model, given, ("onnx-reference", "onnxruntime-cpu")).exit_code == 0


@pytest.mark.parametrize("kind", SAFE)
def test_others_are_optimized(kind: str) -> None:
    assert unsafe_optimizers(onnx.parser.parse_model(HEAD + SAFE[kind]).SerializeToString()) == ()


@pytest.mark.parametrize("damaged", [b"Div", b"\xff" * 20, "/nowhere/m.onnx"])
def test_what_is_not_a_model(damaged: bytes | str) -> None:
    assert unsafe_optimizers(damaged) == ()


def test_a_fusion_to_a_node_that_onnxruntime_refuses_is_left_out() -> None:
    """onnxruntime 1.32: LayerNormFusion joins the Cast of a half with what is computed in float."""
    text = """g (float16[2,4] x, float[4] s, float[4] b) => (float[2,4] y)
      <int64[1] a = {-1}, float two = {2}, float e = {0.01}> {
      f = Cast <to = 1> (x) m = ReduceMean (f, a) d = Sub (f, m) q = Pow (d, two) v = ReduceMean (q, a) w = Add (v, e)
      r = Sqrt (w) n = Div (d, r) t = Mul (n, s) y = Add (t, b) }"""
    model = onnx.parser.parse_model(HEAD.replace("17", "18") + text)
    x = np.arange(8).reshape(2, 4).astype(np.float16)
    y = Predictor(model).run({"x": x, "s": np.ones(4, np.float32), "b": np.zeros(4, np.float32)})["y"]
    centered = x.astype(np.float32) - x.mean(1, dtype=np.float32, keepdims=True)
    np.testing.assert_allclose(y, centered / np.sqrt((centered**2).mean(1, keepdims=True) + 0.01), rtol=1e-3)


def test_the_optimizer_is_named_by_the_node_that_it_made() -> None:
    message = "Type Error: Type parameter (T) ... in node (18/Mul/LayerNormFusion/)."
    assert failed_optimizers(message) == ("LayerNormFusion", "LayerNormFusionL1", "LayerNormFusionL2")
    assert failed_optimizers("Fatal error: Fusion is not a registered function/op") == ()
