from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner, Result
from conformance.recording import operator

from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef, OperatorDef
from caffe2_cli.commands import main


def run(folder: Path, ops: list[OperatorDef], *options: str) -> Result:
    net = NetDef(name="n", op=ops, external_input=["x"], external_output=["y"])
    (folder / "predict_net.pb").write_bytes(net.SerializeToString())
    np.savez(folder / "in.npz", x=np.array([-1, 2], np.float32))
    arguments = ["run", str(folder / "predict_net.pb"), "--inputs", str(folder / "in.npz"), "-o"]
    return CliRunner().invoke(main, [*arguments, str(folder / "out.npz"), *options])


def on_gpu() -> list[OperatorDef]:
    op = operator("Relu", ["x"], ["y"])
    op.device_option.device_type = PROTO_CUDA
    return [op]


def test_cpu_says_that_options_are_ignored(tmp_path: Path) -> None:
    result = run(tmp_path, on_gpu(), "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "warning: the model asks for GPUs: its device options are ignored" in result.stderr
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["y"].tolist() == [0, 2]


def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    result = run(tmp_path, on_gpu(), "--device", "cuda:0")
    assert result.exit_code == 2
    assert "cuda:0 is not available: this onnxruntime has no CUDA" in result.stderr
    assert "--device cpu" in result.stderr
    assert not (tmp_path / "out.npz").exists()


def test_a_net_for_gpus_runs_without_one(tmp_path: Path) -> None:
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    result = run(tmp_path, on_gpu())
    assert result.exit_code == 0, result.output
    assert "warning: the model asks for GPUs, but this onnxruntime has no CUDA" in result.stderr
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["y"].tolist() == [0, 2]


def test_an_unknown_device(tmp_path: Path) -> None:
    result = run(tmp_path, on_gpu(), "--device", "abacus")
    assert result.exit_code == 2
    assert "device 'abacus' is neither 'cpu' nor 'cuda:N'" in result.stderr


def test_int8_outputs_are_written_as_integers(tmp_path: Path) -> None:
    result = run(tmp_path, [operator("Int8Quantize", ["x"], ["y"], Y_scale=0.5, Y_zero_point=10)])
    assert result.exit_code == 0, result.output
    assert "y: uint8[2]" in result.stdout
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["y"].tolist() == [8, 14]
