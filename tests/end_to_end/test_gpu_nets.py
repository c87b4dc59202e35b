"""Nets that were built for GPUs, on a machine without one: checked, exported, run and validated without an option."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from support.commands import call
from support.models.recorded import model_values, save_inputs
from support.nets import net, op
from support.paths import CAFFE2_MODELS

from caffe2_backend import Predictor, validate, workspace
from caffe2_backend.runtime import SessionOptions, Workspace
from caffe2_bridge import Model, load
from caffe2_bridge.devices import Device
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, PROTO_HIP, PROTO_IDEEP, PROTO_MKLDNN, DeviceOption, NetDef
from caffe2_frontend import check, to_onnx
from caffe2_validation.options import ValidationOptions

MODEL = CAFFE2_MODELS / "gpu_cnn"
GPU = DeviceOption(device_type=PROTO_CUDA, device_id=1)

pytestmark = pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="this onnxruntime has CUDA"
)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return save_inputs(MODEL, tmp_path)


def _check(found: np.ndarray) -> None:
    np.testing.assert_allclose(found, model_values(MODEL, "out")["prob_cpu"], rtol=1e-5, atol=1e-6)


def test_the_model_names_gpus() -> None:
    model = load(MODEL)

    assert model.predict_net.device_option.device_type == PROTO_CUDA
    assert {op.engine for op in model.predict_net.op} == {"", "CUDNN"}
    assert {p.device.device_type for p in model.init.parameters.values() if p.device} == {PROTO_CUDA}


def test_check_and_export_need_no_option() -> None:
    assert check(load(MODEL)).findings == ()

    _check(Predictor(to_onnx(load(MODEL))).run(model_values(MODEL, "in"))["prob_cpu"])


def test_a_predictor_runs_on_the_cpu_with_a_warning() -> None:
    with pytest.warns(RuntimeWarning, match="the model asks for GPUs, but this onnxruntime has no CUDA"):
        predictor = Predictor(load(MODEL))

    _check(predictor.run(model_values(MODEL, "in"))["prob_cpu"])


def test_the_command_runs_on_the_cpu_with_a_warning(tmp_path: Path, inputs: Path) -> None:
    result = call("run", MODEL, "--inputs", inputs, "-o", tmp_path / "out.npz")

    assert result.exit_code == 0, result.output
    assert "warning: the model asks for GPUs, but this onnxruntime has no CUDA" in result.stderr
    with np.load(tmp_path / "out.npz") as file:
        _check(file["prob_cpu"])


def test_validation_needs_no_option(inputs: Path) -> None:
    names = ("workspace", "onnxruntime-cpu", "onnx-reference")
    result = call("validate", MODEL, "--inputs", inputs, *(word for name in names for word in ("--against", name)))

    assert result.exit_code == 0, result.output


@pytest.mark.oracle
def test_real_caffe2_runs_gpu_nets_on_the_cpu() -> None:
    report = validate(MODEL, model_values(MODEL, "in"), ["caffe2", "onnxruntime-cpu", "workspace"])

    assert report.verdict == "agree", report.failures


@pytest.mark.parametrize("command", ["run", "validate", "batch"])
def test_a_gpu_that_is_asked_for_is_missed(command: str, tmp_path: Path, inputs: Path) -> None:
    words: tuple[object, ...] = {
        "run": (MODEL, "--inputs", inputs, "-o", tmp_path / "out.npz"),
        "validate": (MODEL, "--inputs", inputs),
        "batch": (MODEL.parent, "-o", tmp_path / "batch"),
    }[command]

    result = call(command, *words, "--device", "cuda:0")

    assert result.exit_code == 2
    assert "cuda:0 is not available: this onnxruntime has no CUDA" in result.stderr
    assert "--device cpu" in result.stderr


def test_validation_takes_a_device(inputs: Path) -> None:
    result = call("validate", MODEL, "--inputs", inputs, "--device", "cpu", "--against", "workspace", "--against",
                  "onnxruntime-cpu")  # fmt: skip

    assert result.exit_code == 0, result.output
    assert ValidationOptions(device="cuda").device == "cuda:0"
    with pytest.raises(RunError, match="neither 'cpu' nor"):
        ValidationOptions(device="abacus")


@pytest.mark.filterwarnings("ignore:net .* asks for GPUs")
def test_a_script_for_gpus_runs_unchanged() -> None:
    model = load(MODEL)
    with workspace.WorkspaceGuard("gpu script"):
        workspace.RunNetOnce(model.init)
        workspace.FeedBlob("data", model_values(MODEL, "in")["data"], device_option=GPU)
        workspace.CreateNet(model.predict_net)
        workspace.RunNet(model.predict_net.name)

        _check(np.asarray(workspace.FetchBlob("prob_cpu")))
        workspace.ResetWorkspace()


def test_the_module_takes_a_device() -> None:
    model = load(MODEL)
    try:
        with pytest.raises(RunError, match="cuda:0 is not available"):
            workspace.SetDevice("cuda:0")
        workspace.SetDevice("cpu")
        with workspace.WorkspaceGuard("made after the device was set"):
            assert workspace.current().device == "cpu"
        with pytest.warns(RuntimeWarning, match="asks for GPUs: its device options are ignored"):
            predictor = workspace.Predictor(model.init_net, model.predict_net)
        _check(predictor.run([model_values(MODEL, "in")["data"]])[0])
    finally:
        workspace.SetDevice(None)
    assert workspace.current().device is None


def test_a_created_net_follows_a_new_device() -> None:
    options = SessionOptions(stand_in={"cuda:0": "cpu"})
    own = Workspace(options=options)
    own.feed("x", np.array([-1, 2], np.float32))
    own.create_net(net(op("Relu", "x", "y")))
    own.run_net("n")

    own.set_device("cuda:0")
    own.run_net("n")

    value = own.fetch("y", on_device=True)
    assert getattr(value, "device", "cpu") == "cuda:0"


def test_a_fed_device_option_follows_the_workspace() -> None:
    options = SessionOptions(stand_in={"cuda:0": "cpu", "cuda:1": "cpu"})
    value = np.array([-1, 2], np.float32)
    for device, expected in ((None, "cuda:1"), ("cuda:0", "cuda:0"), ("cpu", "cpu")):
        own = Workspace(device, options=options)
        own.feed("x", value, GPU)
        assert getattr(own.fetch("x", on_device=True), "device", "cpu") == expected


@pytest.mark.parametrize("kind", [PROTO_HIP, PROTO_IDEEP, PROTO_MKLDNN])
@pytest.mark.filterwarnings("ignore:the model asks for GPUs")
def test_other_device_types_run_on_the_cpu(kind: int) -> None:
    predict = net(op("Relu", "x", "y"))
    predict.op[0].device_option.device_type = kind
    predict.op[0].engine = "MIOPEN"
    x = np.array([-1, 2], np.float32)

    assert Predictor(Model(predict)).run({"x": x})["y"].tolist() == [0, 2]
    assert to_onnx(predict, inputs={"x": ("float32", [2])}).graph.node[0].op_type == "Relu"


@pytest.mark.filterwarnings("ignore:the model asks for GPUs")
def test_a_branch_for_gpus_runs_on_the_cpu() -> None:
    gpu = Device("cuda", 1)
    body = net(op("CopyCPUToGPU", "x", "g", gpu), op("Relu", "g", "y", gpu), inputs="x", outputs="y")
    predict = net(op("If", "c", "y", then_net=body, else_net=body), inputs="c x")
    predict.device_option.CopyFrom(GPU)

    found = Predictor(Model(predict)).run({"c": np.array(1, np.bool_), "x": np.array([-1, 2], np.float32)})

    assert found["y"].tolist() == [0, 2]


def test_old_text_nets_name_their_gpu_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "predict_net.pbtxt"
    path.write_text(
        'name: "old" external_input: "x" external_output: "y"\n'
        'op { type: "Relu" input: "x" output: "y" device_option { device_type: 1 cuda_gpu_id: 1 } }\n'
    )

    with pytest.warns(RuntimeWarning, match="asks for GPUs"):
        predictor = Predictor(path)

    assert predictor.run({"x": np.array([-1, 2], np.float32)})["y"].tolist() == [0, 2]


def data_parallel(gpus: int) -> NetDef:
    """Return what data_parallel_model makes of a layer: a blob for each GPU, combined in place."""
    blobs = " ".join(f"gpu_{n}/y" for n in range(gpus))
    layers = [op("Relu", "x", f"gpu_{n}/y", Device("cuda", n)) for n in range(gpus)]
    return net(*layers, op("NCCLAllreduce", blobs, blobs, Device("cuda", 0)), outputs=blobs)


@pytest.mark.filterwarnings("ignore:the model asks for GPUs")
@pytest.mark.parametrize("kind", ["NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast", "NCCLReduce"])
def test_a_collective_of_one_gpu_does_nothing(kind: str) -> None:
    predict = data_parallel(1)
    predict.op[1].type = kind
    if kind == "NCCLAllGather":  # which Caffe2's schema does not allow in place
        predict.op[1].output[:] = predict.external_output[:] = ["gpu_0/all"]

    found = Predictor(Model(predict)).run({"x": np.array([-1, 2], np.float32)})

    (result,) = found.values()
    assert result.tolist() == [0, 2]


def test_a_collective_of_several_gpus_is_refused() -> None:
    (error,) = check(data_parallel(2), inputs={"x": ("float32", [2])}).findings

    assert error.reason == "the operator communicates between 2 GPUs"
    assert error.hint == "convert the net of one GPU"


@pytest.mark.oracle
def test_real_caffe2_runs_a_collective_of_one_gpu() -> None:
    report = validate(
        Model(data_parallel(1)), {"x": np.array([-1, 2], np.float32)}, ["caffe2", "onnxruntime-cpu", "workspace"]
    )

    assert report.verdict == "agree", report.failures
