"""Edits of graphs that are about to run."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from caffe2_backend.runtime.program.states.graph_edits import drop_unit_factors, remove_unread, static_shape

CONSTANTS = "<float one = {1}, float two = {2}, float[1] row = {1}>"


def graph(body: str, outputs: str = "float[3] y") -> ir.Graph:
    text = f'<ir_version: 9, opset_import: ["": 20]> g (float[3] x, float s) => ({outputs}) {CONSTANTS} {{ {body} }}'
    return ir.from_onnx_text(text).graph


def types(of: ir.Graph) -> list[str]:
    return [node.op_type for node in of]


@pytest.mark.parametrize("product", ["Mul(x, one)", "Mul(one, x)"])
def test_products_with_one_are_dropped(product: str) -> None:
    made = graph(f"a = {product} y = Add(a, x)")
    drop_unit_factors(made)
    assert types(made) == ["Add"]
    assert [value.name for value in made.node(0).inputs if value] == ["x", "x"]


@pytest.mark.parametrize(
    "product", ["Mul(x, two)", "Mul(x, row)", "Mul(x, s)", "Div(x, one)", "com.example.Mul(x, one)"]
)
def test_other_nodes_stay(product: str) -> None:
    made = graph(f"a = {product} y = Neg(a)")
    drop_unit_factors(made)
    assert len(types(made)) == 2


def test_a_product_that_is_an_output_stays() -> None:
    made = graph("y = Mul(x, one)")
    drop_unit_factors(made)
    assert types(made) == ["Mul"]


def test_what_nothing_reads_is_removed() -> None:
    made = graph("a = Neg(x) b = Exp(a) c = Abs(a) y = Identity(x)")
    for node in list(made):
        if node.op_type == "Exp":
            remove_unread(made, node)
    assert types(made) == ["Neg", "Abs", "Identity"]
    remove_unread(made, made.node(1))
    assert types(made) == ["Identity"]
    remove_unread(made, made.node(0))
    assert types(made) == ["Identity"]
    remove_unread(made, None)


def test_static_shapes() -> None:
    assert static_shape(ir.Value(name="n", shape=ir.Shape([2, 3]))) == (2, 3)
    assert static_shape(ir.Value(name="n", shape=ir.Shape(["N", 3]))) is None
    assert static_shape(ir.Value(name="n")) is None
