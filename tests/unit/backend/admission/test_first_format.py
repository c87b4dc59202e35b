"""Models of the first IR version, whose attributes are untyped, and which name no opset."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from caffe2_backend import Predictor, prepare, to_netdef
from caffe2_bridge import ConversionError

X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


def first_format() -> onnx.ModelProto:
    """Return a model as PyTorch 0.2 wrote it."""
    model = parser.parse_model("""<ir_version: 3, opset_import: ["": 1]> g (float[1,1,4,4] x, float[1] b) =>
      (float[1,1,2,2] y) {
      a = MaxPool<kernel_shape = [2, 2], strides = [2, 2], consumed_inputs = [0]>(x)
      s = Scale<scale = 0.5>(a)
      y = Add<broadcast = 1, axis = 1>(s, b) }""")
    model.ir_version = 1
    del model.opset_import[:]
    for node in model.graph.node:
        for attribute in node.attribute:
            attribute.ClearField("type")
    return model


@pytest.mark.parametrize("foreign", ["error", "carry"])
def test_types_are_those_of_the_values_and_the_opset_is_the_first(foreign: str) -> None:
    model = first_format()
    before = model.SerializeToString()
    b = np.array([10], np.float32)
    y = X[:, :, 1::2, 1::2] * 0.5 + 10
    net = to_netdef(model, foreign=foreign)  # type: ignore[arg-type]
    np.testing.assert_array_equal(Predictor(net).run({"x": X, "b": b})["y"], y)
    np.testing.assert_array_equal(prepare(model).run([X, b])[0], y)
    assert model.SerializeToString() == before


def test_an_attribute_without_a_value_is_reported() -> None:
    model = first_format()
    model.graph.node[0].attribute[0].ClearField("ints")
    with pytest.raises(ConversionError, match="'kernel_shape' has no type"):
        to_netdef(model)


def test_later_formats_must_name_types() -> None:
    model = first_format()
    model.ir_version = 4
    with pytest.raises(ConversionError, match="has no type"):
        to_netdef(model)
