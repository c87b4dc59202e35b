"""Branches whose condition is known when the net is converted."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from conformance.recording import operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

SMALL = NetDef(op=[operator("Slice", ["x"], ["y"], starts=[0], ends=[2])])
# It does not fit inputs of 3 elements: a net that holds it takes the other branch for these.
OTHER = NetDef(op=[operator("Reshape", ["x"], ["y", "_"], shape=[2, 2])])


def convert(*ops: OperatorDef, condition: bool) -> onnxruntime.InferenceSession:
    fill = operator("GivenTensorBoolFill", [], ["c"], shape=[1], values=[int(condition)])
    net = NetDef(op=[fill, *ops], external_input=["x"], external_output=["y"])
    model = to_onnx(net, inputs={"x": ("float32", [3])})
    assert not [node for node in model.graph.node if node.op_type == "If"]
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("condition", [True, False])
def test_the_branch_that_runs_is_inlined(condition: bool) -> None:
    nets = (SMALL, OTHER) if condition else (OTHER, SMALL)
    session = convert(operator("If", ["c", "x"], ["y"], then_net=nets[0], else_net=nets[1]), condition=condition)
    (y,) = session.run(None, {"x": np.arange(3, dtype=np.float32)})
    assert y.tolist() == [0, 1]


def test_a_branch_that_is_absent_leaves_blobs_as_they_were() -> None:
    copy = operator("Copy", ["x"], ["y"])
    session = convert(copy, operator("If", ["c", "x"], ["y"], then_net=OTHER), condition=False)
    (y,) = session.run(None, {"x": np.arange(3, dtype=np.float32)})
    assert y.tolist() == [0, 1, 2]
