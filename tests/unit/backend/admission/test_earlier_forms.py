"""Nodes that are written as an earlier opset wrote them, and opsets that nobody knows."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from caffe2_backend import to_netdef
from caffe2_bridge import ConversionError


def refusal(node: str, opset: int, foreign: str = "error") -> str:
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[A,1] x) => (float y) {{ y = {node} }}'
    with pytest.raises(ConversionError) as caught:
        to_netdef(parser.parse_model(text), foreign=foreign)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("node", "opset", "opsets"),
    [
        ("Squeeze<axes = [1]>(x)", 13, "opsets 1 to 12"),
        ("Slice<starts = [0], ends = [1]>(x)", 13, "opsets 1 to 9"),
        ("Clip<min = 0.0>(x)", 12, "opsets 1 to 10"),
        ('Cast<to = "FLOAT">(x)', 9, "opsets 1 to 5"),
        ("Upsample<scales = [1.0, 2.0]>(x)", 9, "opsets 7 to 8"),
        ("Pad<pads = [0, 0, 1, 1]>(x)", 12, "opsets 2 to 10"),
    ],
)
def test_the_opsets_that_a_node_is_of_are_named(node: str, opset: int, opsets: str) -> None:
    said = refusal(node, opset)
    assert f"the node is written as in {opsets}, and the model names a later one" in said
    assert "correct the opset that the model names" in said


def test_attributes_that_no_opset_has_are_reported_as_before() -> None:
    said = refusal("Relu<slope = 1>(x)", 13)
    assert "Relu has no attribute 'slope' [unknown-attribute]" in said


@pytest.mark.parametrize("foreign", ["error", "carry"])
def test_an_opset_that_onnx_does_not_know_is_refused(foreign: str) -> None:
    latest = onnx.defs.onnx_opset_version()
    said = refusal("Relu(x)", latest + 1, foreign)
    assert f"names opset {latest + 1}, and the installed onnx knows opsets up to {latest}" in said
