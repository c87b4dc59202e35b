"""The device webgpu where its provider is missing or followed by a stand-in; ``scripts/gpu --webgpu`` runs on one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from support.nets import net, op

from caffe2_backend import Predictor, Workspace
from caffe2_backend.runtime import SessionOptions
from caffe2_backend.runtime.sessions import onnxruntime_library
from caffe2_backend.runtime.sessions.onnxruntime_library import execution_providers, missing_webgpu, require_provider
from caffe2_bridge import Model, RunError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA

STAND_IN = SessionOptions(stand_in={"webgpu": "cpu"}, threads=1)
PREDICT = net(op("Negative", "x", "a"), op("Unique", "a", "y"), inputs="x", outputs="y")
X = np.array([3, -1, 3], np.int32)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    onnxruntime_library.webgpu_devices.cache_clear()
    yield
    onnxruntime_library.webgpu_devices.cache_clear()


def test_a_provider_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_webgpu", None)

    for make in (lambda: Predictor(Model(PREDICT), "webgpu"), lambda: Workspace("webgpu")):
        with pytest.raises(RunError, match=r"^webgpu is not available: .* is not installed .*\[webgpu\].*--device cpu"):
            make()


def test_a_provider_that_does_not_load_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    package = SimpleNamespace(get_library_path=lambda: "/nowhere/libnothing.so")
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_webgpu", package)

    assert "cannot load its WebGPU provider" in missing_webgpu()


def test_a_net_runs_as_planned_on_a_stand_in() -> None:
    predictor = Predictor(Model(PREDICT), "webgpu", options=STAND_IN)

    assert predictor.run({"x": X})["y"].tolist() == [-3, 1]
    assert predictor.placement is not None
    assert predictor.placement.describe() == "2 of 2 operators run on webgpu"


def test_a_net_for_gpus_runs_on_a_stand_in() -> None:
    """Its operators keep to the host and the GPU that they name, which webgpu takes the place of."""
    ops = [op("CopyCPUToGPU", "x", "g"), op("Negative", "g", "y")]
    for each in ops:
        each.device_option.device_type = PROTO_CUDA
    predictor = Predictor(Model(net(*ops, inputs="x", outputs="y")), "webgpu", options=STAND_IN)

    assert predictor.run({"x": X}, on_device=True)["y"].device == "webgpu"


def test_no_provider_comes_before_it() -> None:
    with pytest.raises(RunError, match="no other provider can come before WebGPU"):
        execution_providers("webgpu", SessionOptions(providers=("CPUExecutionProvider",)))
    with pytest.raises(RunError, match="onnxruntime could not start WebGPU"):
        require_provider(SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"]), "webgpu")
