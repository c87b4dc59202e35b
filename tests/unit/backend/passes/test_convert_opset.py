"""Models of earlier opsets, of which ONNX's converter leaves something as it is, or gives it another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge import ConversionError
from caffe2_frontend import to_onnx

# The axes of ReduceMean are an attribute until opset 17.
MODEL = """<ir_version: 8, opset_import: ["": 13, "com.example": 1]> g (float[2,3] x) => (float[2,1] y) {
  h = ReduceMean <axes = [1]> (x)
  y = com.example.Repeat <body = b (float[2,1] z) => (float[1,1] r) { r = ReduceMean <axes = [0]> (z) }> (h) }"""


def opset_of(model: onnx.ModelProto) -> int:
    return next(each.version for each in model.opset_import if not each.domain)


def axes_of(nodes: Any) -> list[list[int]]:
    return [list(attribute.ints) for node in nodes for attribute in node.attribute if attribute.name == "axes"]


def test_a_model_with_such_a_node_travels_unchanged() -> None:
    made = to_onnx(to_netdef(parser.parse_model(MODEL), foreign="carry"))
    assert opset_of(made) == 13
    assert axes_of(made.graph.node) == [[1]]
    assert axes_of(made.graph.node[1].attribute[0].g.node) == [[0]]


def test_a_model_that_means_the_same_later_is_relabeled() -> None:
    text = MODEL.replace("ReduceMean <axes = [0]> (z)", "Neg (z)").replace("ReduceMean <axes = [1]> (x)", "Abs (x)")
    assert opset_of(to_onnx(to_netdef(parser.parse_model(text), foreign="carry"))) > 13


@pytest.mark.parametrize("foreign", ["carry", "error"])
def test_bounds_of_halves_are_halves(foreign: Any) -> None:
    model = parser.parse_model("""<ir_version: 4, opset_import: ["": 6]>
        g (float16[N] x) => (float16[N] y) { h = Neg (x) y = Clip <min = 0.0, max = 6.0> (h) }""")
    x = np.array([-9, -1, 2], np.float16)
    np.testing.assert_array_equal(
        Predictor(to_netdef(model, foreign=foreign)).run({"x": x})["y"], np.float16([6, 1, 0])
    )


def test_the_node_itself_is_reported_where_nothing_is_carried() -> None:
    with pytest.raises(ConversionError, match=r"com\.example::Repeat"):
        to_netdef(parser.parse_model(MODEL))
