"""``caffe2-bridge export --fp16`` and ``--int8 qdq`` print the largest difference; ``--external-data`` splits files."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner
from conformance.recording import operator
from support.paths import ROOT

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.commands import main

CHAR_RNN = str(ROOT / "models" / "char_rnn")


def exported(*words: str) -> str:
    result = CliRunner().invoke(main, ["export", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_half_precision_prints_its_largest_difference(tmp_path: Path) -> None:
    output = exported(CHAR_RNN, "-o", str(tmp_path / "m.onnx"), "--fp16", "--fp16-io", "float32")
    match = re.search(r"softmax: largest difference ([\d.e-]+) of values up to", output)
    assert match is not None
    assert 0 < float(match[1]) < 0.01


def test_weights_go_to_a_file_of_their_own(tmp_path: Path) -> None:
    exported(CHAR_RNN, "-o", str(tmp_path / "m.onnx"), "--external-data=100")
    assert (tmp_path / "m.onnx.data").stat().st_size > (tmp_path / "m.onnx").stat().st_size


def test_quantized_groups_print_their_largest_difference(tmp_path: Path) -> None:
    how = {"Y_scale": 0.1, "Y_zero_point": 128}
    ops = [
        operator("Int8Quantize", ["x"], ["q"], **how),
        operator("Int8Sum", ["q", "q"], ["s"], Y_scale=0.2, Y_zero_point=128),
        operator("Int8Dequantize", ["s"], ["y"]),
    ]
    net = NetDef(name="n", op=ops, external_input=["x"], external_output=["y"])
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    output = exported(
        str(tmp_path / "predict_net.pb"), "--input", "x=[2,3]", "-o", str(tmp_path / "m.onnx"), "--int8", "qdq"
    )
    assert "y: largest difference" in output
