"""Sessions of converted nets: models with many weights reach onnxruntime through a file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from conformance.recording import operator

from caffe2_backend import Predictor
from caffe2_backend.runtime.sessions import model_session
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef

W = np.arange(4000, dtype=np.float32).reshape(10, 400)
X = np.ones((2, 400), np.float32)


def predictor() -> Predictor:
    fills = [
        operator("GivenTensorFill", [], ["w"], shape=[10, 400], values=W.ravel().tolist()),
        operator("GivenTensorFill", [], ["b"], shape=[10], values=[1.0] * 10),
    ]
    net = NetDef(name="n", op=[operator("FC", ["x", "w", "b"], ["y"])], external_input=["x"], external_output=["y"])
    return Predictor(Model.of(net, NetDef(name="init", op=fills)))


def test_many_weights_go_through_a_file_that_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_session, "_IN_MEMORY", 100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    saved: list[int] = []
    real = ir.save

    def save(model: ir.Model, path: Path, **options: object) -> None:
        real(model, path, **options)  # type: ignore[arg-type] # those of the caller
        saved.append((path.parent / "weights").stat().st_size)

    monkeypatch.setattr(ir, "save", save)
    np.testing.assert_allclose(predictor().run({"x": X})["y"], X @ W.T + 1)
    assert saved[0] >= W.nbytes
    assert list(tmp_path.iterdir()) == []


def test_without_space_for_the_file_they_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_session, "_IN_MEMORY", 100)
    monkeypatch.setattr(ir, "save", full)
    np.testing.assert_allclose(predictor().run({"x": X})["y"], X @ W.T + 1)
