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
WITH_DEFAULTS = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] w, float[2] v) => (float[2] y) '
    "<float[2] w = {1, 1}, float[2] v = {2, 2}> { a = Add(x, w) y = Add(a, v) }"
)
ARRAYS = {"x": np.array([3.0], np.float32), "y": np.array([1.0], np.float32)}


def test_arrays_in_and_out_by_name() -> None:
    session = Session(MODEL, threads=1)
    assert (session.inputs, session.outputs) == (("x", "y"), ("a", "b"))
    results = session.run(ARRAYS)
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


def test_names_that_are_not_inputs() -> None:
    session = Session(MODEL)
    for run in (session.run, session.run_on_device):
        with pytest.raises(RunError, match=r"input 'yy' does not exist: the model has the inputs 'y', 'x'$"):
            run({"x": ARRAYS["x"], "yy": ARRAYS["y"]})


@pytest.mark.parametrize("version", [3, 4, 8])
@pytest.mark.parametrize("in_file", [False, True])
def test_inputs_with_defaults(version: int, in_file: bool, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(WITH_DEFAULTS)
    model.ir_version = version
    path = tmp_path / "m.onnx"
    if in_file:  # external data are read from the folder of the model, also where a default is replaced
        onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="weights")
    session = Session(str(path) if in_file else model.SerializeToString())
    assert (session.inputs, session.optional) == (("x",), ("w", "v"))
    x, w = np.zeros(2, np.float32), np.full(2, 100, np.float32)
    for run in (session.run, session.run_on_device):
        assert run({"x": x})["y"].tolist() == [3, 3]
        assert run({"x": x, "w": w})["y"].tolist() == [102, 102]
        assert run({"x": x, "w": w, "v": w})["y"].tolist() == [200, 200]
        assert run({"x": x})["y"].tolist() == [3, 3]
        with pytest.raises(RunError, match="input 'ww' does not exist: the model has the inputs 'w', 'x', 'v'"):
            run({"x": x, "ww": w})


def test_an_initializer_that_is_no_input_takes_no_value() -> None:
    session = Session(onnx.parser.parse_model(WITH_DEFAULTS.replace(", float[2] v)", ")")).SerializeToString())
    with pytest.raises(RunError, match="input 'v' does not exist: the model has the inputs 'x', 'w'"):
        session.run({"x": np.zeros(2, np.float32), "v": np.zeros(2, np.float32)})


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


def test_without_onnxruntime_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from caffe2_backend.runtime.sessions import onnxruntime_library

    for name in ("onnxruntime", "onnxruntime.capi"):
        monkeypatch.setitem(sys.modules, name, None)
    onnxruntime_library.failures.cache_clear()
    with pytest.raises(RunError, match="onnxruntime is not installed"):
        Session(MODEL)
