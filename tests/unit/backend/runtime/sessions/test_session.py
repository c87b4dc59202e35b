from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import onnx
import pytest

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import RunError

MODEL = onnx.parser.parse_model(
    '<ir_version: 9, opset_import: ["" : 20]> g (float[N] x, float[N] y) => (float[N] a, float[N] b) '
    "{ a = Add(x, y) b = Sub(x, y) }"
).SerializeToString()
ARRAYS = {"x": np.array([3.0], np.float32), "y": np.array([1.0], np.float32)}


def test_arrays_in_and_out_by_name() -> None:
    session = Session(MODEL, threads=1)
    assert (session.inputs, session.outputs) == (("x", "y"), ("a", "b"))
    results = session.run(ARRAYS | {"unused": np.zeros(1)})
    assert {name: value.tolist() for name, value in results.items()} == {"a": [4], "b": [2]}
    assert list(session.run(ARRAYS, ["b"])) == ["b"]


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(MODEL)
    assert Session(str(tmp_path / "m.onnx")).run(ARRAYS)["a"].tolist() == [4]


def test_what_is_missing_is_named() -> None:
    session = Session(MODEL)
    with pytest.raises(RunError, match="inputs 'x', 'y' are not given"):
        session.run({})
    with pytest.raises(RunError, match="onnxruntime: "):
        session.run(ARRAYS | {"x": np.zeros((2, 2), np.float32)})
    with pytest.raises(RunError, match="onnxruntime: "):
        session.run(ARRAYS | {"x": np.zeros(1, np.int64)})


def test_names_that_are_not_text(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError):
        Session(MODEL.replace(b"\x03Add", b"\x03Ad\xff"))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("model", [b"", b"no model", "/nowhere/m.onnx"])
def test_what_is_no_model(model: bytes | str) -> None:
    with pytest.raises(RunError, match="onnxruntime cannot load the model"):
        Session(model)


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cpu:0", ""])
def test_devices_that_do_not_exist(device: str) -> None:
    with pytest.raises(RunError, match="is neither 'cpu' nor 'cuda:N'"):
        Session(MODEL, device)


def test_a_missing_or_damaged_onnxruntime_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RunError, match=r"install caffe2-bridge\[cpu\]"):
        Session(MODEL)
    monkeypatch.setitem(sys.modules, "onnxruntime", types.ModuleType("onnxruntime"))
    with pytest.raises(RunError, match="damaged"):
        Session(MODEL)


def test_a_gpu_that_this_onnxruntime_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(RunError, match=r"install caffe2-bridge\[gpu\]"):
        Session(MODEL, "cuda:0")
