"""Arguments that a converter does not read: ignored where real Caffe2 ignores them, refused where it reads them."""

from __future__ import annotations

from typing import Any

import pytest
from conformance.recording import operator

from caffe2_bridge.diagnostics import ConversionError, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check, to_onnx

IMAGE = ("float32", [1, 2, 5, 5])


def net(*ops: OperatorDef) -> NetDef:
    return NetDef(name="n", op=ops, external_input=["x"], external_output=["y"])


def noted(predict: NetDef, info: tuple[str, list[Any]] = IMAGE) -> list[tuple[str, str]]:
    findings = check(predict, inputs={"x": info}).findings
    assert all(finding.severity is Severity.NOTE for finding in findings), findings
    return [(finding.code, finding.reason) for finding in findings]


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (operator("ConvTranspose", ["x", "w"], ["y"], kernels=[2, 2], dilations=[1, 1]), "dilations"),
        (operator("Softmax", ["x"], ["y"], axes=1), "axes"),
        (operator("Relu", ["x"], ["y"], alpha=0.5), "alpha"),
    ],
)
def test_what_real_caffe2_never_reads_is_ignored_with_a_note(op: OperatorDef, name: str) -> None:
    weights = [operator("ConstantFill", [], ["w"], shape=[2, 3, 2, 2], run_once=0)] if "w" in op.input else []
    reason = f"Caffe2's {op.type} does not read argument {name!r}, so it is ignored"
    found = noted(net(*weights, op))
    assert ("ignored-argument", reason) in found
    assert len(found) == len(weights) + 1


def test_one_note_for_each_type_and_argument() -> None:
    ops = [operator("Relu", ["x"], ["a"], alpha=0.5), operator("Relu", ["a"], ["y"], alpha=0.5)]
    assert [code for code, _ in noted(net(*ops))] == ["ignored-argument"]


@pytest.mark.parametrize("name", ["order", "init_params", "net_pos", "use_cudnn", "ws_nbytes_limit"])
def test_what_helpers_add_to_every_operator_needs_no_note(name: str) -> None:
    assert noted(net(operator("Relu", ["x"], ["y"], **{name: 1}))) == []


def test_what_another_policy_of_learning_rate_reads_is_ignored() -> None:
    op = operator("LearningRate", ["x"], ["y"], policy="fixed", base_lr=0.1, stepsize=10, gamma=0.5)
    assert noted(net(op), ("int64", [1])) == []


def test_a_convolution_may_say_that_its_window_is_not_the_whole_image() -> None:
    weights = operator("ConstantFill", [], ["w"], shape=[3, 2, 2, 2])
    to_onnx(net(weights, operator("Conv", ["x", "w"], ["y"], kernel=2, global_pooling=0)), inputs={"x": IMAGE})
    with pytest.raises(ConversionError, match="Conv has no conversion with global_pooling"):
        to_onnx(net(weights, operator("Conv", ["x", "w"], ["y"], kernel=2, global_pooling=1)), inputs={"x": IMAGE})


def test_what_real_caffe2_reads_and_the_conversion_does_not_stops_it() -> None:
    op = operator("Int8Add", ["x", "x"], ["y"], Y_scale=0.1, Y_zero_point=0, axis=1)
    quantized = operator("Int8Quantize", ["x"], ["q"], Y_scale=0.1, Y_zero_point=0)
    op.input[:] = ["q", "q"]
    with pytest.raises(ConversionError) as caught:
        to_onnx(net(quantized, op), inputs={"x": IMAGE})
    (error,) = caught.value.errors
    assert error.code == "unknown-argument"
    assert "the conversion of Int8Add does not support argument 'axis'" in error.reason
