"""Runtimes: what each gives, and what becomes of a process that hangs, dies or wants too much."""

from __future__ import annotations

import io
import resource
import stat
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from conformance.recording import operator

from caffe2_backend.runtime import Int8Tensor
from caffe2_bridge import Model, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_validation.runtimes import RUNTIMES, find_runtime, process_runtime
from caffe2_validation.runtimes.caffe2_worker import pack, read_frame
from caffe2_validation.runtimes.real_caffe2 import Caffe2, find_python


def net(*ops: object, inputs: tuple[str, ...] = ("x",), outputs: tuple[str, ...] = ("y",)) -> Model:
    return Model.of(NetDef(name="n", op=ops, external_input=inputs, external_output=outputs))  # type: ignore[arg-type]


RELU = net(operator("Relu", ["x"], ["y"]))
X = np.array([[-1.0, 2.0], [np.nan, np.inf]], np.float32)


def test_frames_carry_values_of_every_kind() -> None:
    texts = np.empty(2, object)
    texts[:] = ["caf\xe9", ""]
    values = {
        "f": np.array([np.nan, -np.inf, 1e-45], np.float32),
        "big": np.array([[1, 2]], ">i4"),
        "scalar": np.bool_(1).reshape(()),
        "none": np.zeros((0, 3), np.float16),
        "t": texts,
        "q": (np.array([1, 255], np.uint8), 0.5, 3),
    }
    stream = io.BytesIO(b"".join(pack({"do": "x", "outputs": None}, values)))
    frame = read_frame(stream.read)
    assert frame is not None
    header, found = frame
    assert header == {"do": "x", "outputs": None}
    assert found["f"].tobytes() == values["f"].tobytes()  # type: ignore[attr-defined] # an array
    assert found["big"].tolist() == [[1, 2]]
    assert found["scalar"].shape == ()
    assert found["none"].shape == (0, 3)
    assert found["none"].dtype == np.float16
    assert found["t"].tolist() == ["caf\xe9", ""]
    assert found["q"][0].tolist() == [1, 255]
    assert found["q"][1:] == (0.5, 3)
    assert read_frame(stream.read) is None


@pytest.mark.parametrize(
    "name",
    [
        "onnxruntime-cpu",
        "onnx-reference",
        "workspace",
        pytest.param("caffe2", marks=pytest.mark.oracle),
        pytest.param("onnxruntime-cuda", marks=pytest.mark.gpu),
    ],
)
def test_every_runtime_runs_a_net(name: str) -> None:
    runtime = find_runtime(name)
    loaded = runtime.load(to_onnx(RELU, inputs={"x": ("float32", (None, None))}) if runtime.form == "onnx" else RELU)
    found = loaded.run({"x": X, "unused": X})
    assert list(found) == ["y"]
    y = np.asarray(found["y"])
    np.testing.assert_array_equal(y[:, 1], X[:, 1].clip(0))
    assert all(runtime.versions().values())
    with pytest.raises(RunError):
        loaded.run({})


def test_unknown_and_absent_runtimes_say_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="choose from caffe2, onnxruntime-cpu"):
        find_runtime("tensorflow")
    with pytest.raises(RunError, match="does not exist"):
        find_runtime("caffe2", caffe2_python=str(tmp_path / "python"))
    assert set(RUNTIMES) >= {"caffe2", "onnxruntime-cpu", "onnxruntime-cuda", "onnx-reference"}


def test_the_environment_names_the_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAFFE2_PYTHON", "/some/python")
    assert find_python() == Path("/some/python")
    monkeypatch.delenv("CAFFE2_PYTHON")
    monkeypatch.setenv("CAFFE2_ORACLE_DIR", str(tmp_path))
    assert find_python() is None
    assert "oracle install" in Caffe2().missing()


def script(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_process_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    runtime = Caffe2(script(tmp_path, "echo no caffe2 here >&2; exit 3"))
    with pytest.raises(RunError, match=r"(?s)status 3.*no caffe2 here"):
        runtime.load(RELU).run({"x": X})


def test_a_process_that_dies_is_told_with_the_limit_of_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, 1 << 30))
    with pytest.raises(RunError, match=r"limited to 1,024 MiB: `ulimit -v`"):
        Caffe2(script(tmp_path, "exit 1")).load(RELU).run({"x": X})


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_runtime, "START_SECONDS", 0.2)
    runtime = Caffe2(script(tmp_path, "exec sleep 60"), seconds=0.1)
    start = time.monotonic()
    with pytest.raises(RunError, match="did not answer"):
        runtime.load(RELU).run({"x": X})
    assert time.monotonic() - start < 20


@pytest.mark.oracle
def test_real_caffe2_refuses_what_it_cannot_run_and_goes_on() -> None:
    runtime = find_runtime("caffe2")
    with pytest.raises(RunError, match="caffe2") as caught:
        runtime.load(net(operator("FC", ["x", "x", "x"], ["y"]))).run({"x": X})
    assert "frame #" not in str(caught.value)
    assert "y" in runtime.load(RELU).run({"x": X})


@pytest.mark.oracle
def test_real_caffe2_has_a_memory_limit_and_starts_again() -> None:
    runtime = Caffe2(memory=4096)
    huge = net(operator("ConstantFill", [], ["y"], shape=[1 << 31], value=1.0), inputs=())
    try:
        with pytest.raises(RunError):
            runtime.load(huge).run({})
        assert "y" in runtime.load(RELU).run({"x": X})
    finally:
        runtime.close()


@pytest.mark.oracle
@pytest.mark.parametrize("memory", [16384, 2048, 0])
def test_a_lower_limit_of_the_address_space_stays(memory: int, tmp_path: Path) -> None:
    runtime = Caffe2(script(tmp_path, f'ulimit -v 3000000; exec {find_python()} "$@"'), memory=memory)
    try:
        assert np.asarray(runtime.load(RELU).run({"x": X})["y"]).tolist()[0] == [0, 2]
    finally:
        runtime.close()


@pytest.mark.oracle
def test_real_caffe2_takes_texts_and_int8() -> None:
    runtime = find_runtime("caffe2")
    texts = np.array(["a", "bc"], object)
    copied = runtime.load(net(operator("Copy", ["x"], ["y"]))).run({"x": texts})["y"]
    assert [bytes(t) if isinstance(t, bytes) else t.encode() for t in np.asarray(copied)] == [b"a", b"bc"]
    relu = net(operator("Int8Relu", ["x"], ["y"], Y_scale=0.5, Y_zero_point=3))
    found = relu and runtime.load(relu).run({"x": Int8Tensor(np.array([[1, 9]], np.uint8), 0.5, 3)})["y"]
    assert isinstance(found, Int8Tensor)
    assert found.data.tolist() == [[3, 9]]
    assert (found.scale, found.zero_point) == (0.5, 3)


def lstm(lengths: bool) -> onnx.ModelProto:
    text = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[T,N,2] x, int32[N] lengths, float[2,12,2] w, float[2,12,3] r, float[2,24] b,
       float[2,N,3] h, float[2,N,3] c)
      => (float[T,2,N,3] y, float[2,N,3] yh, float[2,N,3] yc)
    { y, yh, yc = LSTM <direction="bidirectional", hidden_size=3> (x, w, r, b, LENGTHS, h, c) }"""
    return onnx.parser.parse_model(text.replace("LENGTHS", "lengths" if lengths else ""))


@pytest.mark.parametrize("lengths", [[5, 2, 0], [0, 0, 0], [1, 4, 3]])
def test_the_reference_obeys_sequence_lengths(lengths: list[int]) -> None:
    random = np.random.default_rng(3)
    shapes = {"x": (5, 3, 2), "w": (2, 12, 2), "r": (2, 12, 3), "b": (2, 24), "h": (2, 3, 3), "c": (2, 3, 3)}
    feed = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    found = find_runtime("onnx-reference").load(lstm(lengths=True)).run(feed | {"lengths": np.array(lengths, np.int32)})
    for row, length in enumerate(lengths):
        one = {
            k: v[:length, row : row + 1] if k == "x" else v[:, row : row + 1] if k in "hc" else v
            for k, v in feed.items()
        }
        y = np.asarray(found["y"])[:, :, row]
        assert not y[length:].any()
        if not length:
            np.testing.assert_array_equal(np.asarray(found["yh"])[:, row], feed["h"][:, row])
            continue
        alone = (
            find_runtime("onnxruntime-cpu").load(lstm(lengths=False)).run(one | {"lengths": np.array([1], np.int32)})
        )
        np.testing.assert_allclose(y[:length], np.asarray(alone["y"])[:, :, 0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.asarray(found["yc"])[:, row], np.asarray(alone["yc"])[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.torch
def test_pytorch_runs_nets_and_any_of_their_blobs() -> None:
    two = net(operator("Relu", ["x"], ["h"]), operator("Sigmoid", ["h"], ["y"]))
    loaded = find_runtime("pytorch").load(two)
    x = np.array([[-1.0, 2.0]], np.float32)
    assert set(loaded.run({"x": x})) == {"y"}
    found = loaded.run({"x": x}, ["h", "y"])
    assert np.array_equal(np.asarray(found["h"]), [[0.0, 2.0]])
    with pytest.raises(RunError, match="input 'x' is missing"):
        loaded.run({})


@pytest.mark.torch
def test_pytorch_says_which_operators_it_does_not_run() -> None:
    with pytest.raises(RunError, match=r"pytorch cannot load the model: .*'Python' has no conversion"):
        find_runtime("pytorch").load(net(operator("Python", ["x"], ["y"])))
