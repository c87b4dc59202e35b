"""``caffe2-bridge import``, from a file to a folder that loads again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from click.testing import CliRunner
from onnx import parser

from caffe2_backend.cli import main
from caffe2_backend.onnx_session import OnnxSession
from caffe2_bridge import load
from caffe2_frontend import to_onnx

MODEL = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,3] x) => (float[M,2] y) <float[3] w = {1, 2, 3}> {
  t = Mul(x, w) i = NonZero(t) j = Transpose(i) y = Cast<to = 1>(j) }"""


def written(folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(parser.parse_model(MODEL).SerializeToString())
    return path


def test_a_carried_model_runs_again(tmp_path: Path) -> None:
    target = tmp_path / "net"
    result = CliRunner().invoke(main, ["import", str(written(tmp_path)), "-o", str(target), "--foreign", "carry"])
    assert result.exit_code == 0, result.output
    x = np.array([[1, 0, 2], [0, 3, 0]], np.float32)
    (y,) = OnnxSession(to_onnx(load(target)).SerializeToString()).run_values({"x": x})
    np.testing.assert_array_equal(y, np.argwhere(x))


def test_what_caffe2_lacks_is_told_and_nothing_written(tmp_path: Path) -> None:
    target = tmp_path / "net"
    result = CliRunner().invoke(main, ["import", str(written(tmp_path)), "-o", str(target)])
    assert result.exit_code == 1
    assert "NonZero" in result.output
    assert not target.exists()
