"""The command line on models that are all right."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import Result
from conformance.recording import operator
from support import commands
from support.cells import fills
from support.paths import CHAR_RNN, MODELS

import caffe2_bridge as c2
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def call(*words: object, code: int = 0) -> Result:
    result = commands.call(*words)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder with a net of one dense layer and what follows it."""
    ops = [operator("FC", ["x", "w", "b"], ["z"]), operator("Relu", ["z"], ["y"]), operator("Tanh", ["z"], ["t"])]
    net = NetDef(name="small", op=ops, external_input=["x", "w", "b"], external_output=["y"])
    weights = {"w": np.arange(6, dtype=np.float32).reshape(2, 3) - 2, "b": np.ones(2, np.float32)}
    folder = tmp_path / "small"
    folder.mkdir()
    c2.save(c2.Model.of(net, fills(weights)), folder)
    return folder


def dims(value: onnx.ValueInfoProto) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_export_with_nothing_but_a_target(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    result = call("export", small, "-o", target)
    *lines, seconds = result.stdout.splitlines()
    assert lines == [
        f"{target}: {target.stat().st_size:,} bytes", "opset 20", "input   x: float32[N,3]", "output  y: float32[N,2]",
    ]  # fmt: skip
    assert re.fullmatch(r"exported in \d+\.\d s", seconds)
    assert result.stderr == ""
    model = onnx.load(target)  # noqa: TID251 - a file of the tests themselves
    onnx.checker.check_model(model, full_check=True)
    assert [v.name for v in model.graph.input] == ["x"]
    assert [v.name for v in model.graph.output] == ["y"]
    assert dims(model.graph.input[0]) == ["N", 3]
    assert [o.version for o in model.opset_import] == [20]


def test_export_with_inputs_outputs_and_opset(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    words = ["--input", "x=float32[N,3]", "--output", "t", "--output", "z", "--opset", "18"]
    call("export", small / "predict_net.pb", "--init", small / "init_net.pb", *words, "-o", target)
    model = onnx.load(target)  # noqa: TID251 - a file of the tests themselves
    assert dims(model.graph.input[0]) == ["N", 3]
    assert [v.name for v in model.graph.output] == ["t", "z"]
    assert dims(model.graph.output[0]) == ["N", 2]
    assert [o.version for o in model.opset_import] == [18]


def test_export_that_computes_blobs_of_steps_again(tmp_path: Path) -> None:
    """Check that the forward loop of the LSTM has states and their rows alone."""
    saved = {}
    for choice in ("none", "steps"):
        target = tmp_path / f"{choice}.onnx"
        words = ["--input", "target=[T,N,H]", "--no-training", "--recompute", choice]
        call("export", MODELS / "lstm_train", "-o", target, *words)
        model = onnx.load(target)  # noqa: TID251 - a file of the tests themselves
        saved[choice] = max(len(node.output) for node in nodes(model.graph) if node.op_type == "Scan")
    assert saved["steps"] < saved["none"]


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x=[4,?]", [4, 3]), ("x=float32", ["N", 3]), ("x=float[batch, 3]", ["batch", 3])],
)
def test_what_can_be_said_of_an_input(small: Path, tmp_path: Path, text: str, expected: list[Any]) -> None:
    call("export", small, "-o", tmp_path / "out.onnx", "--input", text)
    assert dims(onnx.load(tmp_path / "out.onnx").graph.input[0]) == expected  # noqa: TID251 - a file of the tests themselves


@pytest.mark.parametrize(("form", "kind"), [("fused", "LSTM"), ("auto", None), ("scan", None), ("loop", None)])
def test_export_of_each_form(tmp_path: Path, form: str, kind: str | None) -> None:
    target = tmp_path / "out.onnx"
    call("export", CHAR_RNN, "-o", target, "--recurrent", form)
    types = {node.op_type for node in onnx.load(target).graph.node}  # noqa: TID251 - a file of the tests themselves
    assert kind is None or kind in types
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.onnx"]


def test_check(small: Path) -> None:
    result = call("check", small)
    assert result.stdout == "3 operators convert; covered\n"
    assert json.loads(call("check", small, "--json").stdout) == {
        "schema": 1,
        "covered": True,
        "converted": {"FC": 1, "Relu": 1, "Tanh": 1},
        "findings": [],
    }


def test_run_of_a_net_and_of_its_export(small: Path, tmp_path: Path) -> None:
    x = np.array([[1, 2, 3], [-4, 0, 5]], np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    call("export", small, "-o", tmp_path / "model.onnx")
    expected = np.maximum(x @ (np.arange(6, dtype=np.float32).reshape(2, 3) - 2).T + 1, 0)
    for model in (small, tmp_path / "model.onnx"):
        result = call("run", model, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
        assert result.stdout == "y: float32[2, 2]\n"
        with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
            assert file.files == ["y"]
            np.testing.assert_allclose(file["y"], expected)


def test_run_with_outputs_of_any_name_and_text(tmp_path: Path) -> None:
    ops = [operator("Copy", ["x"], ["file"]), operator("Copy", ["s"], ["scope/text"])]
    net = NetDef(op=ops, external_input=["x", "s"], external_output=["file", "scope/text"])
    (tmp_path / "net.pb").write_bytes(net.SerializeToString())
    np.savez(tmp_path / "in.npz", x=np.ones(2, np.float32), s=np.array(["a", "bc"]))
    call("run", tmp_path / "net.pb", "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert file["scope/text"].tolist() == ["a", "bc"]
        assert file["file"].tolist() == [1, 1]


def test_show(small: Path) -> None:
    text = call("show", small).stdout
    for words in ("small", "inputs", "x", "outputs", "3 operators", "FC", "Relu", "2 parameters, 32 bytes", "2 x 3"):
        assert words in text
    text = call("show", CHAR_RNN).stdout
    assert "in bodies" in text
    assert "LSTMUnit" in text


def test_ops() -> None:
    rows = json.loads(call("ops", "--json").stdout)["families"]
    types = {name for row in rows.values() for name in row}
    assert {"FC", "RecurrentNetwork", "LSTMUnit", "Softmax"} <= types
    assert f"{sum(map(len, rows.values()))} operators" in call("ops").stdout


@pytest.mark.torch
def test_ops_of_modules() -> None:
    (types,) = json.loads(call("ops", "--to", "torch", "--json").stdout)["families"].values()
    assert {"FC", "RecurrentNetwork", "LSTMUnit", "Softmax"} <= set(types)
    assert f"{len(types)} operators" in call("ops", "--to", "torch").stdout


def test_a_real_process(small: Path, tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", "from caffe2_cli.commands import main; main()"]

    def start(*words: object) -> subprocess.CompletedProcess[str]:
        words = (*command, *map(str, words))
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own code

    done = start("export", small, "-o", tmp_path / "out.onnx")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{tmp_path / 'out.onnx'}: ")
    done = start("check", tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path / 'none'}: cannot be read: No such file or directory\n"
    assert start("export", small).returncode == 2


def test_run_names_all_missing_inputs_with_their_shapes(tmp_path: Path) -> None:
    net = NetDef(
        name="n",
        op=[
            operator("Conv", ["data", "w"], ["a"], kernel=3),
            operator("RoIAlign", ["a", "rois"], ["y"], pooled_h=2, pooled_w=2, spatial_scale=1.0, sampling_ratio=2),
        ],
        external_input=["data", "rois", "w"],
        external_output=["y"],
    )
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    (tmp_path / "init_net.pb").write_bytes(fills({"w": np.ones((2, 3, 3, 3), np.float32)}).SerializeToString())
    result = call("run", tmp_path, "-o", tmp_path / "out.npz", code=2)
    assert (
        "inputs 'data', 'rois' are not given (data: float32[N,3,H,W], rois: float32[rois_dim_0,rois_dim_1])"
        in result.stderr
    )
    call("export", tmp_path, "-o", tmp_path / "net.onnx")
    result = call("run", tmp_path / "net.onnx", "-o", tmp_path / "out.npz", code=2)
    assert "inputs 'data', 'rois' are not given (data: float32[N,3,H,W], rois: float32[" in result.stderr


def test_the_quantization_of_an_input(tmp_path: Path) -> None:
    net = NetDef(
        name="n",
        op=[operator("Int8Dequantize", ["x"], ["y"])],
        external_input=["x"],
        external_output=["y"],
    )
    path = tmp_path / "predict_net.pb"
    path.write_bytes(net.SerializeToString())
    assert (
        "--input 'x=uint8[N,3]@0.05,128'"
        in call("export", path, "-o", tmp_path / "out.onnx", "--input", "x=[N,3]", code=1).stderr
    )
    call("export", path, "-o", tmp_path / "out.onnx", "--input", "x=uint8[N,3]@0.05,128")
    assert "expected NAME=DTYPE[DIM,...]" in call("check", path, "--input", "x=uint8@one,2", code=2).stderr
