"""Models in canonical form, and pairs of their values: by names, contents, and structure."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from caffe2_bridge.diagnostics import RunError
from caffe2_validation.diagnose.align import (
    Alignment,
    align_by_contents,
    align_by_name,
    align_by_structure,
    unpaired_nodes,
)
from caffe2_validation.diagnose.canonical import canonical


def made(body: str, weights: str = "float w = {2.0}, float v = {3.0}") -> ir.Model:
    text = f'<ir_version: 9, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) <{weights}> {{ {body} }}'
    return canonical(onnx.parser.parse_model(text))


def pairs(found: Alignment) -> dict[str | None, str | None]:
    return {one.name: other.name for one, other in found.left.items()}


def test_constants_are_folded_and_lifted() -> None:
    model = made("a = Constant <value = float {5.0}> ()  b = Add (w, a)  c = Identity (b)  y = Mul (x, c)")
    assert [node.op_type for node in model.graph] == ["Mul"]
    assert [float(value.const_value.numpy()) for value in model.graph.initializers.values() if value.uses()] == [7]  # type: ignore[union-attr] # known


def test_a_random_node_stays() -> None:
    model = made("r = RandomUniformLike <seed = 1.0> (w)  y = Mul (x, r)")
    assert [node.op_type for node in model.graph] == ["RandomUniformLike", "Mul"]


def test_a_model_that_is_not_valid() -> None:
    broken = onnx.ModelProto(ir_version=9)
    broken.graph.initializer.add(name="w", dims=[2], data_type=99)
    with pytest.raises(RunError, match="cannot be brought into canonical form"):
        canonical(broken)


def test_by_name_values_of_like_nodes_come_first() -> None:
    one, other = made("h = Mul (x, w)  y = Neg (h)"), made("h = Mul (x, w)  y = Neg (h)")
    assert pairs(align_by_name(one, other)) == {"x": "x", "y": "y", "h": "h"}


@pytest.mark.parametrize("other", ["p = Mul (v, x)  q = Add (p, w)  y = Neg (q)"])
def test_by_structure_whatever_the_names_and_the_order_of_operands(other: str) -> None:
    one, two = made("h = Mul (x, w)  i = Add (h, v)  y = Neg (i)"), made(other)
    found = align_by_structure(one, two)
    assert pairs(found) == {"x": "x", "h": "p", "i": "q", "y": "y"}
    assert (unpaired_nodes(one, found.left), unpaired_nodes(two, found.right)) == (0, 0)


def test_by_contents_tells_products_with_other_weights_apart() -> None:
    one = made("h = Mul (x, w)  i = Mul (x, v)  y = Sub (h, i)")
    other = made("p = Mul (x, v)  q = Mul (x, w)  y = Sub (q, p)")
    assert pairs(align_by_contents(one, other)) == {"x": "x", "h": "q", "i": "p", "y": "y"}


def test_what_has_no_partner_is_counted() -> None:
    one, other = made("h = Mul (x, w)  y = Neg (h)"), made("y = Neg (x)")
    found = align_by_structure(one, other)
    assert unpaired_nodes(one, found.left) == 1
    assert unpaired_nodes(other, found.right) == 0
