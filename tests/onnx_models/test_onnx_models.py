"""The script on models of the test's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import parser

from onnx_models.__main__ import main

SUM = "g (float[N,3] x) => (float[N,3] y) { y = Add (x, x) }"
CARRIED = "g (float[N,5,5] x) => (float[N] y) { y = Det (x) }"
UNSIGNED = "g (uint32[N,3] x) => (uint32[N,3] y) { y = Add (x, x) }"
NOISE = "g () => (float[3] y) { y = RandomNormal <shape = [3]> () }"
# ONNX leaves the order open; onnxruntime's is another than that of ONNX's reference, and of Caffe2.
UNSORTED = """g (float[3,4,5,6] x) => (float[3,3,5,6] y, int64[3,3,5,6] i) {
  k = Constant <value = int64[1] {3}> () y, i = TopK <axis = -2, sorted = 0> (x, k) }"""
TEXT = "g (string[N] x) => (string[N] y) { y = Identity (x) }"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    for name, text in (
        ("sum", SUM),
        ("deep/carried", CARRIED),
        ("text", TEXT),
        ("unsigned", UNSIGNED),
        ("noise", NOISE),
        ("unsorted", UNSORTED),
    ):
        model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 17]> {text}')
        (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    return tmp_path


def test_outcomes(folder: Path) -> None:
    result = CliRunner().invoke(main, [str(folder), "--json"])
    assert result.exit_code == 0
    columns = {outcome["name"]: outcome["columns"] for outcome in json.loads(result.output)}
    assert columns["sum.onnx"]["carried"] == columns["sum.onnx"]["strict"] == "equal"
    assert columns["unsigned.onnx"]["carried"] == columns["unsigned.onnx"]["strict"] == "equal"
    assert columns["noise.onnx"]["carried"] == columns["noise.onnx"]["strict"] == "random"
    assert columns["unsorted.onnx"]["carried"] == columns["unsorted.onnx"]["strict"] == "equal"
    assert columns["deep/carried.onnx"]["carried"] == "equal"
    assert columns["deep/carried.onnx"]["strict"].startswith("refused: ")
    assert columns["text.onnx"]["strict"].startswith("not run: input 'x' has no numbers")
    assert columns["broken.onnx"]["strict"].startswith("not run: ")


def test_table(folder: Path) -> None:
    result = CliRunner().invoke(main, [str(folder), "--only", "carried"])
    lines = result.output.splitlines()
    assert lines[0].split() == ["model", "nodes", "carried", "strict", "caffe2"]
    assert lines[1].split()[:4] == ["deep/carried.onnx", "1", "equal", "refused"]
    assert "refused: Det 1" in lines


def test_sizes_of_strict_nets(folder: Path) -> None:
    result = CliRunner().invoke(main, [str(folder), "--only", "sum"])
    assert "strict: 1.00 operators for one of the carried net (median of 1)" in result.output


def test_no_models(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 2
    assert "no .onnx file below" in result.output
