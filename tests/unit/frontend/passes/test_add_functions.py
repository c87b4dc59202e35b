"""Functions of ONNX that registered converters call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from conformance.recording import operator
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge import ConversionError, Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import register_converter, to_onnx
from caffe2_frontend.ops.index import REGISTERED

INPUTS = {"x": ("float32", ["N", 3])}
X = np.array([[1, 2, -3]], np.float32)
QUARTIC = parser.parse_function(
    '<domain: "my.functions", opset_import: ["": 20]> Quartic (x) => (y) { s = Mul(x, x) y = Mul(s, s) }'
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    yield
    REGISTERED.clear()


def net_of(*op_types: str) -> NetDef:
    names = ["x", *(f"y{i}" for i in range(1, len(op_types))), "y"]
    ops = [operator(kind, [names[i]], [names[i + 1]]) for i, kind in enumerate(op_types)]
    return NetDef(name="n", op=ops, external_input=["x"], external_output=["y"])


def test_a_function_is_part_of_the_model() -> None:
    @register_converter("Quartic")
    def quartic(op: Any) -> Any:
        return op.call(QUARTIC, op.input(0))

    model = to_onnx(net_of("Quartic", "Relu"), inputs=INPUTS)
    assert [(node.domain, node.op_type) for node in model.graph.node] == [("my.functions", "Quartic"), ("", "Relu")]
    assert [function.name for function in model.functions] == ["Quartic"]
    assert [dim.dim_param or dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim] == ["N", 3]
    onnx.checker.check_model(model)
    np.testing.assert_array_equal(Predictor(Model(net_of("Quartic"))).run({"x": X})["y"], X**4)
    assert [op.type for op in to_netdef(model).predict_net.op] == ["Quartic", "Relu"]
    with pytest.raises(ConversionError, match="is of opset 20, and the model of opset 17"):
        to_onnx(net_of("Quartic"), inputs=INPUTS, opset=17)
