"""Sessions do without the optimizations that would change integers, and with them elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from caffe2_backend import Predictor, run_model, validate
from caffe2_backend.runtime.sessions.unsafe_optimizers import unsafe_optimizers

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
