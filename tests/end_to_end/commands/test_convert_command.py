"""``caffe2-bridge convert``, and ``show`` in its other forms."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.commands import call
from support.paths import CHAR_RNN

import caffe2_bridge as c2

needs_plyvel = pytest.mark.skipif(find_spec("plyvel") is None, reason="plyvel is not installed")
FORMATS = ["pb", "pbtxt", "minidb", "lmdb", pytest.param("leveldb", marks=needs_plyvel)]


@pytest.mark.parametrize("layout", FORMATS)
def test_there_and_back(tmp_path: Path, layout: str) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    result = call("convert", CHAR_RNN, there, "--format", layout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{there}: {layout}, ")
    assert call("convert", there, back).exit_code == 0
    assert (back / "predict_net.pb").read_bytes() == (CHAR_RNN / "predict_net.pb").read_bytes()
    wanted = c2.load(CHAR_RNN).params
    found = c2.load(back).params
    assert list(found) == list(wanted)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name])


def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    missing = call("convert", tmp_path / "none", out)
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr == f"error: {tmp_path / 'none'}: cannot be read: No such file or directory\n"
    unknown = call("convert", CHAR_RNN, out, "--format", "zip")
    assert unknown.exit_code == 2
    assert "leveldb" in unknown.stderr
    named = call("convert", CHAR_RNN, out, "--predictor", "a")
    assert (named.exit_code, "only predictor databases have named predictors" in named.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_show_draws(tmp_path: Path) -> None:
    picture = tmp_path / "net.svg"
    result = call("show", CHAR_RNN, "--svg", picture)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{picture}: {picture.stat().st_size:,} bytes\n"
    assert "LSTMUnit" in picture.read_text("utf-8")


def test_show_without_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = call("show", CHAR_RNN, "--svg", tmp_path / "net.svg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "graphviz" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_show_takes_onnx_files(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    assert call("export", CHAR_RNN, "-o", model).exit_code == 0
    shown = call("show", model)
    assert shown.exit_code == 0
    for part in ("ai.onnx 20", "seq_lengths  int32[N]", "LSTM ", "parameters, "):
        assert part in shown.stdout, shown.stdout
    if shutil.which("dot"):
        assert call("show", model, "--svg", tmp_path / "m.svg").exit_code == 0
        assert ">LSTM<" in (tmp_path / "m.svg").read_text("utf-8")
    assert call("show", model, "--predictor", "a").exit_code == 2
    (tmp_path / "broken.onnx").write_bytes(b"\xff\xff")
    broken = call("show", tmp_path / "broken.onnx")
    assert (broken.exit_code, "broken.onnx: not an ONNX model" in broken.stderr) == (2, True)
