"""Operands that Caffe2's schemas require or forbid to be one blob."""

from __future__ import annotations

import pytest
from conformance.recording import operator

from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

INPUTS = {"x": ("float32", ("N", 4)), "i": ("int32", ("K",)), "r": ("float32", ("K", 4)), "c": ("bool", (1,))}


def codes(*ops: OperatorDef, outputs: list[str] | None = None) -> list[tuple[str, str]]:
    read = {name for op in ops for name in op.input}
    inputs = {name: spec for name, spec in INPUTS.items() if name in read}
    with pytest.raises(ConversionError) as caught:
        to_onnx(NetDef(name="net", op=ops), inputs=inputs, outputs=outputs)
    return [(finding.code, str(finding.location)) for finding in caught.value.errors]


def test_an_operator_that_must_update_a_blob() -> None:
    scatter = operator("ScatterAssign", ["x", "i", "r"], ["y"])
    assert codes(scatter) == [("not-in-place", "net[0] ScatterAssign")]


def test_an_operator_that_must_not_write_in_place() -> None:
    softmax = operator("Softmax", ["x"], ["x"])
    assert codes(operator("Relu", ["x"], ["x"]), softmax) == [("in-place", "net[1] Softmax")]


def test_operators_of_bodies() -> None:
    body = NetDef(op=[operator("Softmax", ["x"], ["x"])])
    branch = operator("If", ["c", "x"], ["x"], then_net=body)
    assert codes(branch) == [("in-place", "net[0] If > then_net[0] Softmax")]


def test_operators_that_the_outputs_do_not_need_are_not_checked() -> None:
    ops = [operator("Relu", ["x"], ["y"]), operator("Softmax", ["x"], ["x"])]
    to_onnx(NetDef(op=ops), inputs={"x": INPUTS["x"]}, outputs=["y"])


def test_counts_of_operands() -> None:
    assert codes(operator("Relu", ["x", "r"], ["y"])) == [("operand-count", "net[0] Relu")]
    assert codes(operator("Relu", ["x"], ["y", "z"])) == [("extra-output", "net[0] Relu")]
    assert codes(operator("ScatterAssign", ["x", "i"], ["x"])) == [("missing-input", "net[0] ScatterAssign")]
