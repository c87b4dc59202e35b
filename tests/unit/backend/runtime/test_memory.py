"""A lack of memory is an error that says for what, wherever a run meets it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Predictor, Workspace
from caffe2_backend.runtime.memory import lack_in_session
from caffe2_backend.runtime.program.program import Program
from caffe2_bridge import Model, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

NET = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
X = np.ones(2, np.float32)


class Huge:
    """A tensor for which there is no room."""

    def __array__(self, *_: object, **_options: object) -> Any:
        raise MemoryError("Unable to allocate 9 TiB")


def fail(*_: object, **_options: object) -> Any:
    raise MemoryError("Unable to allocate 9 TiB")


def test_what_onnxruntime_says() -> None:
    text = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Add node. Name:'y/Add' Status "
        "Message: bfc_arena.cc:360 AllocateRawInternal Failed to allocate memory for requested buffer of size 256000000"
    )
    assert str(lack_in_session(text)) == (
        "onnxruntime, node 'y/Add': there is not enough memory: 256,000,000 bytes for a buffer"
    )
    assert str(lack_in_session("std::bad_alloc")) == "onnxruntime: there is not enough memory"
    assert lack_in_session("Gemm node. Name:'y' Status Message: Dimension mismatch") is None


def test_values_that_are_fed() -> None:
    with pytest.raises(RunError, match="blob 'x': there is not enough memory"):
        Workspace().feed("x", Huge())
    with pytest.raises(RunError, match="blob 'x': there is not enough memory"):
        Predictor(Model.of(NET)).run({"x": Huge()})


def test_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, predictor = Workspace(), Predictor(Model.of(NET))
    workspace.feed("x", X)
    workspace.create_net(NET)
    for name in ("run", "collect"):
        monkeypatch.setattr(Program, name, fail)
    with pytest.raises(RunError, match="net 'n': there is not enough memory"):
        workspace.run_net("n")
    with pytest.raises(RunError, match="the model: there is not enough memory"):
        predictor.run({"x": X})
    with pytest.raises(RunError, match="the model: there is not enough memory"):
        list(predictor.run_many([{"x": X}]))


def test_values_that_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace()
    workspace.feed("x", X)
    monkeypatch.setattr(Workspace, "_copied", fail)
    with pytest.raises(RunError, match="blob 'x': there is not enough memory"):
        workspace.fetch("x")
