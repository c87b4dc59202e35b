"""Weights that a net lacks: found by every command, or an error of the export; and what check says of the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conformance.recording import operator
from support.cells import fills
from support.commands import call

from caffe2_bridge.proto.caffe2_pb2 import NetDef

NET = NetDef(
    name="n",
    op=[operator("FC", ["x", "w", "b"], ["a"]), operator("Unknown", ["a"], ["c"]), operator("Relu", ["c"], ["y"])],
    external_input=["x", "w", "b"],
    external_output=["y"],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "netPredict_0614.pb").write_bytes(NET.SerializeToString())
    return tmp_path


def test_an_export_without_weights_fails_unless_that_is_said(folder: Path) -> None:
    words = ("export", folder / "netPredict_0614.pb", "--output", "a", "-o", folder / "m.onnx")
    failed = call(*words)
    assert failed.exit_code == 1
    assert "error: 2 of 3 inputs are parameters without a value ('w', 'b')" in failed.stderr
    assert not (folder / "m.onnx").exists()
    assert call(*words, "--no-weights").exit_code == 0
    (folder / "netInit_0614.pb").write_bytes(fills({"w": np.ones((2, 3)), "b": np.ones(2)}).SerializeToString())
    found = call(*words)
    assert (found.exit_code, found.stderr) == (0, "")


def test_a_check_says_what_was_not_examined(folder: Path) -> None:
    result = call("check", folder / "netPredict_0614.pb")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "1 of 3 operators has no conversion: Unknown; 1 behind it was not examined"


def test_chosen_outputs_cut_the_net_in_a_validation(folder: Path) -> None:
    (folder / "netInit_0614.pb").write_bytes(fills({"w": np.ones((2, 3)), "b": np.ones(2)}).SerializeToString())
    sides = ("--against", "onnxruntime-cpu", "--against", "onnx-reference")
    assert call("validate", folder / "netPredict_0614.pb", "--output", "a", *sides).exit_code == 0
