from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from conformance.recording import operator

from caffe2_backend.runtime import SessionOptions
from caffe2_backend.runtime.sessions.fixed_binding import FixedBinding
from caffe2_backend.runtime.sessions.onnxruntime_library import execution_providers, library_options
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.values import DeviceTensor
from caffe2_bridge.diagnostics import OptionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

NET = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
MODEL = to_onnx(NET, inputs={"x": ("float32", [None])}).SerializeToString()


def test_choices_reach_the_session() -> None:
    options = library_options(
        SessionOptions(threads=3, parallel_operators=2, optimization="basic", arena=False, memory_patterns=True)
    )
    assert options.intra_op_num_threads == 3
    assert options.inter_op_num_threads == 2
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert not options.enable_cpu_mem_arena
    assert options.enable_mem_pattern
    assert (
        library_options(SessionOptions(spinning=False)).get_session_config_entry("session.intra_op.allow_spinning")
        == "0"
    )


def test_defaults_do_not_grow_with_shapes() -> None:
    options = library_options(SessionOptions())
    assert not options.enable_mem_pattern
    assert options.enable_cpu_mem_arena


def test_other_providers_come_first() -> None:
    name = next(name for name in onnxruntime.get_available_providers())
    assert execution_providers("cpu", SessionOptions(providers=((name, {"a": "b"}),)))[0] == (name, {"a": "b"})
    with pytest.raises(RunError, match="no provider 'AbacusExecutionProvider': it has"):
        Session(MODEL, options=SessionOptions(providers=("AbacusExecutionProvider",)))


def test_cuda_options() -> None:
    providers = execution_providers("cuda:2", SessionOptions(cuda={"gpu_mem_limit": "9"}, cuda_graphs=True))
    expected = {"device_id": 2, "gpu_mem_limit": "9", "enable_cuda_graph": "1"}
    assert providers == [("CUDAExecutionProvider", expected), "CPUExecutionProvider"]


def test_fixed_buffers_run_again_with_other_values() -> None:
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    x = np.array([-1, 2], np.float32)
    fixed = FixedBinding(session, {"x": x}, "cuda:0", "cpu", 1)

    first = fixed.run({"x": x})["y"]
    second = fixed.run({"x": DeviceTensor(onnxruntime.OrtValue.ortvalue_from_numpy(-x), "cuda:0")})["y"]

    assert isinstance(first, DeviceTensor)
    assert isinstance(second, DeviceTensor)
    assert first.numpy().tolist() == [0, 2], "a later run does not change what an earlier one returned"
    assert second.numpy().tolist() == [1, 0]


def test_a_model_that_cannot_be_recorded_runs_without_cuda_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    real = onnxruntime.InferenceSession
    asked: list[bool] = []

    def make(model: bytes, options: object, providers: list[object], **others: object) -> object:
        graphs = any(isinstance(each, tuple) and "enable_cuda_graph" in each[1] for each in providers)
        asked.append(graphs)
        if graphs:
            raise RuntimeError("This session cannot use the graph capture feature as requested by the user")
        session = real(model, options, providers=["CPUExecutionProvider"], **others)
        monkeypatch.setattr(session, "get_providers", lambda: ["CUDAExecutionProvider"])
        return session

    monkeypatch.setattr(onnxruntime, "InferenceSession", make)
    monkeypatch.setattr("caffe2_backend.runtime.sessions.session.real_device", lambda device, _: device)

    with pytest.warns(RuntimeWarning, match="the model cannot be recorded as a CUDA graph"):
        session = Session(MODEL, "cuda:0", options=SessionOptions(cuda_graphs=True))

    assert asked == [True, False]
    assert session.run({"x": np.array([-1, 2], np.float32)})["y"].tolist() == [0, 2]


@pytest.mark.parametrize(
    "given",
    [
        {"threads": 0}, {"threads": "2"}, {"parallel_operators": 0}, {"optimization": "most"}, {"arena": "no"},
        {"providers": "CPUExecutionProvider"}, {"disabled_optimizers": "ConstantFolding"}, {"entries": {"key": 1}},
    ],
)  # fmt: skip
def test_values_that_onnxruntime_would_ignore_or_not_take(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        SessionOptions(**given)


def test_what_stands_in_is_a_device() -> None:
    with pytest.raises(RunError, match="'tpu' is neither"):
        SessionOptions(stand_in={"cuda:0": "tpu"})
