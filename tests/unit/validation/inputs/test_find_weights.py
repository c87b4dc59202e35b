"""Init nets of any name, found by their contents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conformance.recording import operator
from support.cells import fills
from support.nets import op

from caffe2_backend import validate
from caffe2_bridge import RunError, load
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.inputs.find_weights import find_weights

SIDES = ("workspace", "onnxruntime-cpu")
NET = NetDef(name="n", op=[op("FC", "x w b", "y")], external_input=["x", "w", "b"], external_output=["y"])
WEIGHTS = {"w": np.eye(4, dtype=np.float32), "b": np.ones(4, np.float32)}


def write(path: Path, *ops: object) -> None:
    path.write_bytes(NetDef(name="init", op=ops).SerializeToString())  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layer.pb").write_bytes(NET.SerializeToString())
    (tmp_path / "notes.txt").write_text("read me")
    write(tmp_path / "half.pb", *fills({"w": WEIGHTS["w"]}).op)
    write(tmp_path / "parameters.pb", *fills(WEIGHTS).op)
    return tmp_path


@pytest.mark.parametrize("random_weights", [False, True])
def test_weights_are_read_before_any_are_synthesized(folder: Path, *, random_weights: bool) -> None:
    report = validate(folder / "layer.pb", runtimes=SIDES, random_weights=random_weights)
    assert report.agrees, report.to_json()
    assert report.random_weights == ()
    assert "weights are read from parameters.pb, which lies in the folder of layer.pb" in report.notes


def test_several_candidates_are_named(folder: Path) -> None:
    write(folder / "second.pb", *fills(WEIGHTS).op)
    with pytest.raises(RunError, match=r"parameters.pb, second.pb; name one with --init"):
        validate(folder / "layer.pb", runtimes=SIDES)
    report = validate(folder / "layer.pb", runtimes=SIDES, random_weights=True)
    assert report.random_weights == ("w", "b")
    assert any("name one with --init" in note for note in report.notes)


def test_a_net_with_an_init_net_keeps_it(folder: Path) -> None:
    write(folder / "layer_init.pb", *fills({**WEIGHTS, "w": 2 * WEIGHTS["w"]}).op)
    found, notes = find_weights(load(folder / "layer.pb"))
    assert notes == []
    assert found.params["w"][0, 0] == 2


def test_operators_that_the_net_does_not_need_are_left_out(folder: Path) -> None:
    reader = operator("CreateDB", [], ["reader"], db="nowhere", db_type="minidb")
    write(folder / "parameters.pb", reader, *fills(WEIGHTS).op)
    found, notes = find_weights(load(folder / "layer.pb"))
    assert len(notes) == 1
    assert [op.type for op in found.init_net.op] == ["GivenTensorFill", "GivenTensorFill"]
    assert validate(folder / "layer.pb", runtimes=SIDES).agrees


def test_a_half_is_not_enough(folder: Path) -> None:
    (folder / "parameters.pb").unlink()
    assert validate(folder / "layer.pb", runtimes=SIDES, random_weights=True).random_weights == ("w", "b")
