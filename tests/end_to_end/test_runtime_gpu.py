"""Nets on CUDA devices: the same results as on the CPU, values that stay on the device, and the copies of the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np
import onnx_ir as ir
import pytest
from conformance.corpus import find_cases, read_case
from conformance.recording import operator
from gpu_suite.copies import count_copies, profile
from support.paths import CHAR_RNN, MODELS

from caffe2_backend import Predictor, Workspace
from caffe2_backend.runtime import DeviceTensor, SessionOptions, make_plan
from caffe2_backend.runtime.placement.graph import place_graph
from caffe2_bridge import load
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef, OperatorDef
from caffe2_frontend import to_onnx

pytestmark = pytest.mark.gpu
FORWARD: Final = sorted(
    path.parent.name
    for path in MODELS.glob("*/model.json")
    if not json.loads(path.read_text()).get("train") and not path.parent.name.endswith("_grad")
)


def on_gpu(op: OperatorDef) -> OperatorDef:
    op.device_option.device_type = PROTO_CUDA
    return op


def with_tail() -> NetDef:
    ops = [
        on_gpu(operator("CopyCPUToGPU", ["x"], ["x_gpu"])),
        on_gpu(operator("Relu", ["x_gpu"], ["a"])),
        on_gpu(operator("CopyGPUToCPU", ["a"], ["a_cpu"])),
        operator("Negative", ["a_cpu"], ["y"]),
    ]
    return NetDef(name="tail", op=ops, external_input=["x"], external_output=["y"])


@pytest.mark.parametrize("name", FORWARD)
def test_golden_models(name: str) -> None:
    for ref in find_cases(MODELS / name):
        case = read_case(ref)
        predictor = Predictor(Model.of(case.net, case.init_net), "cuda:0")
        results = predictor.run(case.inputs)
        for blob, expected in case.outputs.items():
            if blob in results:
                np.testing.assert_allclose(results[blob], expected, rtol=1e-3, atol=1e-4)


def test_a_tail_on_the_host_does_the_copies_of_its_plan(tmp_path: Path) -> None:
    import onnxruntime

    plan = make_plan(with_tail())
    assert [run.device for run in plan.runs] == ["cuda:0", "cpu"]
    assert len(plan.transfers) == 2
    workspace = Workspace()
    x = np.array([-1, 2], np.float32)
    workspace.feed("x", x)
    workspace.run_net_once(with_tail())
    np.testing.assert_array_equal(workspace.fetch("y"), -np.maximum(x, 0))
    assert isinstance(workspace.fetch("a", on_device=True), DeviceTensor)
    # Inside of a run, onnxruntime adds no copy of its own: a profile shows the nodes that ran.
    relu = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(
        to_onnx(relu, inputs={"x": ("float32", [None])}).SerializeToString(),
        options,
        providers=["CUDAExecutionProvider", "CPUExecutionProvider"],
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x, "cuda", 0))
    binding.bind_output("y", "cuda", 0)
    session.run_with_iobinding(binding)
    events = json.loads(Path(session.end_profiling()).read_text())
    assert not [event["name"] for event in events if "Memcpy" in event["name"]]


def test_cuda_graphs() -> None:
    net = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    predictor = Predictor(Model.of(net), "cuda:0", options=SessionOptions(cuda_graphs=True))
    for sign in (1, -1, 1):
        x = sign * np.array([-1, 2], np.float32)
        np.testing.assert_array_equal(predictor.run({"x": x})["y"], np.maximum(x, 0))


@pytest.mark.parametrize("name", FORWARD)
def test_no_copies_but_those_that_are_predicted(name: str, tmp_path: Path) -> None:
    case = read_case(find_cases(MODELS / name)[0])
    inputs = {blob: (str(value.dtype), [None] * value.ndim) for blob, value in case.inputs.items()}
    model = to_onnx(Model.of(case.net, case.init_net), inputs=inputs, recurrent="gpu")
    predicted = place_graph(ir.from_proto(model))
    if not predicted.reasons and not predicted.copies:
        assert count_copies(profile(model.SerializeToString(), case.inputs, tmp_path)) == {}


@pytest.mark.torch
def test_cuda_tensors_of_torch_do_not_touch_the_host() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    predictor = Predictor(load(CHAR_RNN), "cuda:0")
    inputs = {
        "input_blob": torch.zeros(1, 1, 94, device="cuda"),
        "seq_lengths": torch.ones(1, dtype=torch.int32, device="cuda"),
        "hidden_init": torch.zeros(1, 1, 192, device="cuda"),
        "cell_init": torch.zeros(1, 1, 192, device="cuda"),
    }
    result = predictor.run(inputs, on_device=True)["softmax"]
    tensor = torch.from_dlpack(result)
    assert tensor.is_cuda
    host = Predictor(load(CHAR_RNN)).run({name: value.cpu() for name, value in inputs.items()})["softmax"]
    np.testing.assert_allclose(tensor.cpu().numpy(), host, rtol=1e-3, atol=1e-4)
