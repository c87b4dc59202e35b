"""Descriptions of an ONNX model's inputs: sizes that the model leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.described_inputs import describe_proto
from caffe2_backend.input_text import parse_input
from caffe2_bridge.diagnostics import ConversionError, OptionError
from caffe2_frontend.interop.types import tensor_info

# How many columns the indices have decides which operators of Caffe2 gather.
GATHER = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[N,4] x, int64[M,K] i) => (float[P,Q] y) { y = GatherND(x, i) }"""
IMAGE = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[N,3,H,W] x, float[N,2] z, float[3] w) => (float[N,3,P,Q] y, float[N,2] u)
    <float[3] w = {1, 2, 3}> { y = MaxPool<kernel_shape = [2, 2]>(x) u = Relu(z) }"""


def imported(text: str = IMAGE, **inputs: Any) -> Any:
    return to_netdef(onnx.parser.parse_model(text), inputs=inputs)


def test_described_sizes_make_a_model_importable() -> None:
    with pytest.raises(ConversionError) as raised:
        imported(GATHER)
    (found,) = raised.value.errors
    assert (found.code, found.hint) == (
        "needs-shape",
        (
            "fix the sizes, such as --input 'x=float32[1,4]' --input 'i=int64[1,1]', "
            "or inputs={'x': ('float32', [1, 4]), 'i': ('int64', [1, 1])}"
        ),
    )
    model = imported(GATHER, i=("int64", ["M", 1]))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    rows = Predictor(model).run({"x": x, "i": np.array([[2], [0]])})["y"]
    np.testing.assert_array_equal(rows, x[[2, 0]])


def test_a_hint_can_be_typed() -> None:
    with pytest.raises(ConversionError) as raised:
        imported(GATHER)
    typed = raised.value.errors[0].hint.split("'")[1:4:2]
    assert imported(GATHER, **dict(filter(None, map(parse_input, typed)))).inputs == ("x", "i")


def test_a_size_replaces_its_name_everywhere() -> None:
    described = {"x": tensor_info("x", (None, [4, None, "H", 8]))}
    graph = describe_proto(onnx.parser.parse_model(IMAGE), described).graph
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output)
    }
    assert shapes == {"x": [4, 3, "H", 8], "z": [4, 2], "w": [3], "y": [4, 3, "P", "Q"], "u": [4, 2]}


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"zz": ("float32", [1, 2])}, "the model has no input 'zz': its inputs are 'z', 'x'"),
        ({"w": ("float32", [3])}, "the model has no input 'w'"),
        ({"x": ("float64", None)}, "input 'x' is float32, not float64"),
        ({"x": ("float32", [1, 3])}, "input 'x' has 4 dims, not 2"),
        ({"x": ("float32", [1, 4, 8, 8])}, "dim 1 of input 'x' is 3, not 4"),
        ({"x": ("float32", [1, 3, 8, 8]), "z": (None, [2, 2])}, "dim 0 of input 'z' is 1, not 2"),
        ({"z": ("float32", [1, 2], (0.5, 3))}, "input 'z' has no scale and zero point"),
    ],
)
def test_descriptions_that_contradict_the_model_are_errors(inputs: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        imported(**inputs)
    assert reason in str(raised.value)


def test_an_input_of_unknown_rank_gets_one() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]> g (float x) => (float y) { y = Flatten(x) }"""
    model = onnx.parser.parse_model(text)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    found = to_netdef(model, inputs={"x": (None, [2, 3, 4])})
    assert Predictor(found).run({"x": np.ones((2, 3, 4), np.float32)})["y"].shape == (2, 12)
