"""``-`` for standard input and output. Modules: streams, model_source."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from support.nets import net, op

from caffe2_bridge import Model, save
from caffe2_cli.commands import main

SHAPE = ("--input", "x=float32[2]")


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    save(Model(net(op("Relu", "x", "y"))), tmp_path / "relu")
    return tmp_path / "relu" / "predict_net.pb"


def call(*words: object, stdin: bytes = b"") -> Result:
    result = CliRunner().invoke(main, list(map(str, words)), input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_model_through_pipes(relu: Path, tmp_path: Path) -> None:
    exported = call("export", "-", *SHAPE, "-o", "-", stdin=relu.read_bytes())
    assert exported.exit_code == 0, exported.output
    model = onnx.load_from_string(exported.stdout_bytes)
    assert [value.name for value in model.graph.output] == ["y"]
    assert exported.stderr.startswith(f"-: {len(exported.stdout_bytes)} bytes\nopset ")
    inputs = io.BytesIO()
    np.savez(inputs, x=np.array([-1, 2], np.float32))
    (tmp_path / "in.npz").write_bytes(inputs.getvalue())
    (tmp_path / "m.onnx").write_bytes(exported.stdout_bytes)
    by_model = call("run", "-", "--inputs", tmp_path / "in.npz", "-o", "-", stdin=exported.stdout_bytes)
    by_inputs = call("run", tmp_path / "m.onnx", "--inputs", "-", "-o", "-", stdin=inputs.getvalue())
    for result in (by_model, by_inputs):
        assert result.exit_code == 0, result.stderr
        with np.load(io.BytesIO(result.stdout_bytes)) as found:
            assert found["y"].tolist() == [0, 2]
    assert "Relu" in call("show", "-", stdin=exported.stdout_bytes).stdout
    assert call("import", "-", "-o", tmp_path / "net", stdin=exported.stdout_bytes).exit_code == 0


def test_what_a_stream_cannot_have(relu: Path, tmp_path: Path) -> None:
    cases = {
        ("run", "-", "--inputs", "-", "-o", tmp_path / "o.npz"): "standard input (-) can be given once",
        ("convert", relu, "-", "-o", "-"): "standard output (-) can be given once",
        ("convert", relu, "-"): "what is written is more than one file",
        ("export", relu, *SHAPE, "-o", "-", "--json"): "both write standard output",
        ("export", relu, *SHAPE, "-o", "-", "--external-data=0"): "",
        ("show", "-", "--init", tmp_path): "--init, --databases and --predictor are for Caffe2 models",
    }
    for words, reason in cases.items():
        result = call(*words, stdin=b"\x08\x01" if words[0] == "show" else b"")
        assert (result.exit_code, reason in result.stderr) == (2 if reason else 0, True), (words, result.output)


def test_nothing_is_left_and_a_failure_writes_nothing(
    relu: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert call("export", "-", "-o", "-", stdin=b"\xff\xff").stdout_bytes == b""
    assert call("export", "-", *SHAPE, "-o", "-", stdin=relu.read_bytes()).exit_code == 0
    assert list((tmp_path / "temporary").iterdir()) == []
