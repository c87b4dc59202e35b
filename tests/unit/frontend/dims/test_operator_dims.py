"""Dims that operators require to be equal, and what the axes of their operands are usually called."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from caffe2_frontend.dims.operator_dims import equalities, has_equalities, has_roles, roles


def node_of(text: str) -> ir.Node:
    head = '<ir_version: 9, opset_import: ["" : 20, "other" : 1]>'
    return ir.from_proto(onnx.parser.parse_model(f"{head} g {text}")).graph.node(0)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("(float[N,K] x, float[K2,M] w) => (float y) { y = MatMul (x, w) }", {("K", "K2")}),
        ("(float[B,N,K] x, float[K2] w) => (float y) { y = MatMul (x, w) }", {("K", "K2")}),
        ("(float[K,N] x, float[M,K2] w) => (float y) { y = Gemm <transA = 1, transB = 1> (x, w) }", {("K", "K2")}),
        ("(float[N,C,H,W] x, float[6,2,3,3] w) => (float y) { y = Conv <group = 3> (x, w) }", {("C", 6)}),
        ("(float[N,C,H,W] x, float[C2,2,3,3] w) => (float y) { y = ConvTranspose (x, w) }", {("C", "C2")}),
        ("(float[N,A] x, float[N2,B] w) => (float y) { y = Concat <axis = -1> (x, w) }", {("N", "N2")}),
        ("(float[N,A] x, float[B] w) => (float y) { y = Concat <axis = 0> (x, w) }", set()),
        (
            "(float[T,N,I] x, float[1,8,I2] w, float[1,8,H] r, float[1,N2,H2] h) => (float y) {y = RNN (x,w,r,,,h)}",
            {("I", "I2"), ("N", None), ("N", "N2"), ("H2", "H"), ("N", None), (None, "H")},
        ),
    ],
)
def test_equal_dims(text: str, pairs: set[tuple[object, object]]) -> None:
    node = node_of(text)
    assert has_equalities(node)
    assert set(equalities(node)) == pairs


def test_operators_that_broadcast_or_are_of_other_domains_have_none() -> None:
    for text in ("y = Add (x, w)", "y = other.MatMul (x, w)"):
        node = node_of(f"(float[N] x, float[M] w) => (float y) {{ {text} }}")
        assert not has_equalities(node)
        assert list(equalities(node)) == []
        assert not has_roles(node)


def test_usual_names() -> None:
    node = node_of("(float[a,3,b,c] x) => (float y) { y = GlobalAveragePool (x) }")
    assert list(roles(node)) == [("a", "N"), ("b", "H"), ("c", "W")]
    assert list(roles(node_of("(float[a,b] x) => (float y) { y = GlobalAveragePool (x) }"))) == []
