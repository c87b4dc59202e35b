"""Exports for one runtime: opset, form of recurrent nets, and what the runtime lacks."""

from __future__ import annotations

import onnx
import pytest
from click.testing import CliRunner
from conformance.recording import operator
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_backend.admission import load_proto
from caffe2_bridge.diagnostics import ConversionError, OptionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.commands import main
from caffe2_frontend import ExportOptions, to_onnx

LSTM = c2.load(MODELS / "lstm")
CHOSEN = ["rnn/hidden_state_all", "rnn/cell_state_last"]


def opset(model: onnx.ModelProto) -> int:
    return max(each.version for each in model.opset_import if not each.domain)


def test_the_default_is_onnxruntime() -> None:
    assert to_onnx(LSTM) == to_onnx(LSTM, target="onnxruntime") == to_onnx(LSTM, target="onnxruntime-1.17")


@pytest.mark.parametrize(("target", "number"), [("onnxruntime-1.15", 17), ("onnxruntime-1.12", 17), ("tensorrt", 13)])
def test_targets_choose_the_opset(target: str, number: int) -> None:
    assert ExportOptions(target=target).opset == number
    assert ExportOptions(target=target, opset=12).opset == 12


def test_releases_take_the_model() -> None:
    model = to_onnx(LSTM, target="onnxruntime-1.15")
    assert (opset(model), model.ir_version <= 9) == (17, True)


def test_targets_choose_the_form() -> None:
    assert to_onnx(LSTM, target="openvino") == to_onnx(LSTM, recurrent="portable")
    fused = to_onnx(LSTM, recurrent="fused", outputs=CHOSEN)
    assert to_onnx(LSTM, target="openvino", recurrent="fused", outputs=CHOSEN) == fused


def test_all_that_a_target_lacks_is_reported() -> None:
    with pytest.raises(ConversionError) as raised:
        to_onnx(LSTM, target="coreml")
    assert {each.code for each in raised.value.errors} == {"target-lacks"}
    reasons = [each.reason for each in raised.value.errors]
    assert len(reasons) > 1
    assert any("Loop (of " in reason for reason in reasons)


def test_scans_of_openvino_are_refused() -> None:
    with pytest.raises(ConversionError, match="openvino does not take Scan"):
        to_onnx(LSTM, target="openvino", recurrent="scan")


def test_tract_has_scans_and_no_rnn_of_relu() -> None:
    kinds = {node.op_type for node in to_onnx(LSTM, target="tract").graph.node}
    assert "Scan" in kinds
    assert not kinds & {"If", "Loop"}
    relu = to_onnx(c2.load(MODELS / "basic_rnn_relu"), target="tract")
    assert not any(node.op_type == "RNN" for node in relu.graph.node)
    tanh = to_onnx(c2.load(MODELS / "basic_rnn_tanh"), target="tract")
    assert any(node.op_type == "RNN" for node in tanh.graph.node)


def test_what_a_target_lacks_of_one_type_is_refused_of_that_type() -> None:
    def export(kind: str, dtype: str) -> onnx.ModelProto:
        net = NetDef(name="n", op=[operator(kind, ["x"], ["y"])], external_input=["x"], external_output=["y"])
        return to_onnx(net, inputs={"x": (dtype, ["N", 8])}, target="openvino")

    assert export("Tanh", "float32").graph.node
    with pytest.raises(ConversionError, match=r"openvino does not take BitShift .*: its arithmetic of bytes saturates"):
        export("Fused4BitRowwiseQuantizedToFloat", "uint8")
    with pytest.raises(ConversionError, match=r"openvino has no double tensors"):
        export("FloatToFused4BitRowwiseQuantized", "float32")


def test_axes_that_opencv_takes_as_constants_alone() -> None:
    net = NetDef(name="n", op=[operator("SumReduceLike", ["x", "y"], ["z"])], external_input=["x", "y"])
    net.external_output.append("z")
    with pytest.raises(ConversionError, match=r"opencv takes ReduceSum .* only if input 1 is a constant"):
        to_onnx(net, inputs={"x": ("float32", [None, 3]), "y": ("float32", [None, 3])}, target="opencv")
    assert to_onnx(net, inputs={"x": ("float32", [2, 3]), "y": ("float32", [1, 3])}, target="opencv")


@pytest.mark.parametrize("name", ["caffe", "onnxruntime-1.7", "onnxruntime-2.0", ""])
def test_unknown_targets(name: str) -> None:
    with pytest.raises(OptionError, match="target must be one of onnxruntime, "):
        ExportOptions(target=name)


def test_the_command_writes_nothing_that_the_runtime_lacks(tmp_path: object) -> None:
    target = f"{tmp_path}/model.onnx"
    refused = CliRunner().invoke(main, ["export", str(MODELS / "lstm"), "-o", target, "--for", "coreml"])
    assert refused.exit_code == 1
    assert "target-lacks" in refused.output
    written = CliRunner().invoke(main, ["export", str(MODELS / "lstm"), "-o", target, "--for", "onnxruntime-1.15"])
    assert written.exit_code == 0
    assert opset(load_proto(target)) == 17
