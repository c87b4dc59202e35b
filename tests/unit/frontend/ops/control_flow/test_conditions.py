"""Conditions of branches and loops that are no booleans."""

from __future__ import annotations

import pytest
from conformance.recording import operator

from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

BODY = NetDef(op=[operator("Relu", ["x"], ["x"])])
TEST = NetDef(op=[operator("Copy", ["k"], ["c"])], external_output=["c"])
NESTED = NetDef(op=[operator("If", ["k"], ["x"], then_net=BODY)])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
@pytest.mark.parametrize(
    ("op", "place"),
    [
        (operator("If", ["k"], ["x"], then_net=BODY), r"net\[0\] If:"),
        (operator("While", ["k"], ["x"], loop_net=BODY), r"net\[0\] While:"),
        (operator("While", ["c"], ["x"], loop_net=BODY, cond_net=TEST), r"net\[0\] While:"),
        (operator("If", ["c"], ["x"], then_net=NESTED), r"net\[0\] If > then_net\[0\] If:"),
    ],
)
def test_refused(op: OperatorDef, place: str, dtype: str) -> None:
    net = NetDef(name="net", op=[op], external_output=["x"])
    inputs = {"x": ("float32", [None]), "c": ("bool", [1]), "k": (dtype, [1])}
    read = {*op.input, "k", "x"}
    with pytest.raises(ConversionError, match=rf"{place}.* the condition must be BOOL, not"):
        to_onnx(net, inputs={name: info for name, info in inputs.items() if name in read})
