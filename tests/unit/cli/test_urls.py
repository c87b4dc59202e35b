"""Commands with URLs for paths."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.commands import call
from support.storage.web_server import Site, serving
from support.training import classifier_data, linear_classifier

import caffe2_bridge as c2
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.storage import locate

pytest.importorskip("fsspec")

RELU = NetDef(
    name="net", op=[OperatorDef(type="Relu", input=["x"], output=["y"])], external_input=["x"], external_output=["y"]
)
X = np.array([[-1.0, 2.0]], np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    return f"memory://{request.node.name}"


@pytest.fixture
def model(folder: str) -> str:
    c2.save(Model.of(RELU), f"{folder}/net")
    return f"{folder}/net"


def stored(**arrays: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type] # arrays by name
    return file.getvalue()


def succeeds(*words: object) -> str:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.output


def test_from_url_to_url(folder: str, model: str) -> None:
    locate(f"{folder}/in.npz").write_bytes(stored(x=X))
    assert "covered" in succeeds("check", model, "--input", "x=float32[N,2]")
    assert f"{folder}/m.onnx: " in succeeds("export", model, "-o", f"{folder}/m.onnx", "--input", "x=float32[N,2]")
    for source in (model, f"{folder}/m.onnx"):
        succeeds("run", source, "--inputs", f"{folder}/in.npz", "-o", f"{folder}/out.npz")
        with np.load(locate(f"{folder}/out.npz")) as found:
            assert found["y"].tolist() == [[0.0, 2.0]]
        assert "Relu" in succeeds("show", source)
    assert "minidb" in succeeds("convert", model, f"{folder}/m.minidb", "--format", "minidb")
    assert f"Wrote {folder}/back/ (predict_net.pb, init_net.pb): 1 operator, Caffe2's own" in succeeds(
        "import", f"{folder}/m.onnx", "-o", f"{folder}/back"
    )
    assert c2.load(f"{folder}/back").outputs == ("y",)
    page = f"{folder}/report.html"
    runtimes = ("--against", "onnxruntime-cpu", "--against", "onnx-reference")
    succeeds("validate", model, *runtimes, "--inputs", f"{folder}/in.npz", "--report", page)
    assert "<html" in locate(page).read_text()
    names = [file.name for file in locate(folder).iterdir()]
    assert names == ["back", "in.npz", "m.minidb", "m.onnx", "net", "out.npz", "report.html"]


def test_training_resumes_from_a_url(folder: str) -> None:
    c2.save(Model.of(*linear_classifier()), f"{folder}/net")
    locate(f"{folder}/data.npz").write_bytes(stored(**classifier_data(8)))
    words = ("train", f"{folder}/net", "--inputs", f"{folder}/data.npz", "--batch-size", 4, "-o", f"{folder}/trained")
    succeeds(*words, "--steps", 1)
    output = succeeds(*words, "--steps", 2, "--resume", f"{folder}/trained")
    assert f"{folder}/trained/init_net.pb: " in output
    assert "in 2 steps" in output
    assert c2.load(f"{folder}/trained").params


@pytest.fixture
def site(folder: str) -> Iterator[Site]:
    del folder
    with serving(Site({"net/predict_net.pb": RELU.SerializeToString()})) as found:
        yield found


def test_errors(site: Site, model: str, folder: str) -> None:
    result = call("check", f"{site.url}/none.pb".replace("://", "://me:secret@"))
    assert result.exit_code == 2
    assert "error: http://***@127.0.0.1" in result.output
    assert "no such file (HTTP 404" in result.output
    result = call("export", model, "-o", f"{site.url}/m.onnx", "--input", "x=float32[N,2]")
    assert f"error: {site.url}/m.onnx: http:// can be read only\n" in result.output
    result = call("run", model, "--inputs", f"{folder}/none.npz", "-o", f"{folder}/out.npz")
    assert f"error: {folder}/none.npz: the object does not exist\n" in result.output
    result = call("check", "ftp://host/x")
    assert result.exit_code == 2
    assert "URLs of the scheme 'ftp' are not read" in result.output
    assert call("check", f"{site.url}/net/", "--input", "x=float32[N,2]").exit_code == 0
