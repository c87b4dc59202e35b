"""``caffe2-bridge import``, from a file to a folder that loads again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import parser

from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import load
from caffe2_cli.commands import main
from caffe2_frontend import to_onnx

MODEL = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,3] x) => (float[M,2] y) <float[3] w = {1, 2, 3}> {
  t = Mul(x, w) i = NonZero(t) j = Transpose(i) y = Cast<to = 1>(j) }"""


LACKING = """<ir_version: 10, opset_import: ["": 21]> g (float[N,5,5] x) => (float[N] y) { y = Det(x) }"""


def written(folder: Path, text: str = MODEL) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


def test_a_carried_model_runs_again(tmp_path: Path) -> None:
    target = tmp_path / "net"
    result = CliRunner().invoke(main, ["import", str(written(tmp_path)), "-o", str(target), "--foreign", "carry"])
    assert result.exit_code == 0, result.output
    x = np.array([[1, 0, 2], [0, 3, 0]], np.float32)
    (y,) = OnnxSession(to_onnx(load(target)).SerializeToString()).run_values({"x": x})
    np.testing.assert_array_equal(y, np.argwhere(x))


GATHER = """<ir_version: 9, opset_import: ["" : 20]>
g (float[N,4] x, int64[M,K] i) => (float[P,Q] y) { y = GatherND(x, i) }"""


def test_described_inputs(tmp_path: Path) -> None:
    words = ["import", str(written(tmp_path, GATHER)), "-o", str(tmp_path / "net")]
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 1
    assert "--input 'i=int64[1,1]'" in refused.output
    result = CliRunner().invoke(main, [*words, "--input", "i=int64[M,1]"])
    assert result.exit_code == 0, result.output
    count = len(load(tmp_path / "net").predict_net.op)
    text = f"net/ (predict_net.pb, init_net.pb): {count} operators, all of them Caffe2's own."
    wrote, summary = result.output.replace(str(tmp_path) + "/", "").splitlines()
    assert wrote == f"Wrote {text}"
    assert summary.startswith("inputs x, i; outputs y; ")
    unknown = CliRunner().invoke(main, [*words, "--input", "indices=int64[M,1]"])
    assert unknown.exit_code == 2
    assert "the model has no input 'indices': its inputs are 'i', 'x'" in unknown.output


def test_carried_operators_are_counted(tmp_path: Path) -> None:
    words = ["import", str(written(tmp_path)), "-o", str(tmp_path / "net"), "--foreign", "carry", "--format", "pbtxt"]
    text = CliRunner().invoke(main, words).output
    assert "net/ (predict_net.pbtxt, init_net.pbtxt): 4 operators, 1 of them carried as ONNX operators." in text


def test_what_caffe2_lacks_is_told_and_nothing_written(tmp_path: Path) -> None:
    target = tmp_path / "net"
    result = CliRunner().invoke(main, ["import", str(written(tmp_path, LACKING)), "-o", str(target)])
    assert result.exit_code == 1
    assert "Det" in result.output
    assert not target.exists()


@pytest.mark.parametrize(
    ("devices", "kinds"),
    [
        (["cuda:1"], ["CopyCPUToGPU", "Mul"]),
        (["x=cuda:1"], ["Mul"]),
        (["x=cpu", "w=cuda:1"], ["CopyCPUToGPU", "Mul"]),
    ],
)
def test_devices(tmp_path: Path, devices: list[str], kinds: list[str]) -> None:
    path, target = tmp_path / "m.onnx", tmp_path / "net"
    model = parser.parse_model(MODEL.partition(" i = ")[0].replace("float[M,2] y", "float[N,3] t") + "}")
    path.write_bytes(model.SerializeToString())
    options = [word for device in devices for word in ("--device", device)]
    result = CliRunner().invoke(main, ["import", str(path), "-o", str(target), *options])
    assert result.exit_code == 0, result.output
    loaded = load(target)
    assert [op.type for op in loaded.predict_net.op] == kinds
    assert all(op.device_option.device_id == 1 for op in (*loaded.predict_net.op, *loaded.init_net.op))


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (["cuda:0", "x=cpu"], "do not go together"),
        (["u=cuda:0"], "'u', and the model has no such"),
        (["x=abacus"], "abacus"),
    ],
)
def test_devices_that_there_are_not(tmp_path: Path, devices: list[str], message: str) -> None:
    options = [word for device in devices for word in ("--device", device)]
    command = ["import", str(written(tmp_path)), "-o", str(tmp_path / "net"), "--foreign", "carry", *options]
    result = CliRunner().invoke(main, command)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
