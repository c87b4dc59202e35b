"""ONNXWhile whose states change their sizes."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import run

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

# Each iteration doubles the list, and multiplies it by the length that it had.
BODY = NetDef(
    op=[
        operator("Concat", ["a", "a"], ["twice", "_"], axis=0),
        operator("Size", ["a"], ["size"]),
        operator("Cast", ["size"], ["length"], to=1),
        operator("Mul", ["twice", "length"], ["b"], broadcast=1),
        operator("Copy", ["go"], ["again"]),
    ],
    external_input=["i", "go", "a"],
    external_output=["again", "b"],
)


@pytest.mark.parametrize("size", [1, None])
def test_a_state_that_grows_has_no_size_in_the_body(size: int | None) -> None:
    loop = operator(
        "ONNXWhile", ["n", "go", "x"], ["y"], body=BODY, has_trip_count=1, has_cond=1, num_loop_carried_deps=1
    )
    net = NetDef(op=[loop], external_input=["n", "go", "x"], external_output=["y"])
    model = to_onnx(net, inputs={"n": ("int64", []), "go": ("bool", []), "x": ("float32", [size])})
    (node,) = (node for node in model.graph.node if node.op_type == "Loop")
    (body,) = (attribute.g for attribute in node.attribute if attribute.name == "body")
    assert not any(dim.HasField("dim_value") for dim in body.input[-1].type.tensor_type.shape.dim)
    feeds = {"n": np.array(3), "go": np.ones((), bool), "x": np.ones(1, np.float32)}
    np.testing.assert_array_equal(run(model, feeds)[0], np.full(8, 8, np.float32))  # as real Caffe2 computes
