"""Checkpoints are complete, or the one before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from caffe2_backend.training.checkpoint import FILE, Checkpoint, read_checkpoint, write_checkpoint
from caffe2_bridge.diagnostics import NetFormatError

STATE = {"scope/w": np.arange(6, dtype=np.float32).reshape(2, 3), "iter": np.array([3], np.int64), "s": np.array(1.5)}


def test_a_round_trip(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, Checkpoint(STATE, [3.0, float("nan"), 1.0], "loss"))
    found = read_checkpoint(tmp_path)
    assert (found.steps, found.loss, found.losses[2]) == (3, "loss", 1.0)
    assert found.state.keys() == STATE.keys()
    for name, value in STATE.items():
        assert found.state[name].dtype == value.dtype
        np.testing.assert_array_equal(found.state[name], value)


def test_a_failed_write_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    write_checkpoint(tmp_path, Checkpoint(STATE, [3.0], "loss"))
    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="No space"):
        write_checkpoint(tmp_path, Checkpoint(STATE, [3.0, 2.0], "loss"))
    assert read_checkpoint(tmp_path).steps == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_strings_are_written_as_text(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, Checkpoint({"w": np.array([b"a"], object)}, [3.0], "loss"))
    assert read_checkpoint(tmp_path).state["w"].tolist() == ["a"]


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_damage(tmp_path: Path, cut: int) -> None:
    path = write_checkpoint(tmp_path, Checkpoint(STATE, [3.0], "loss"))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(NetFormatError, match="not a checkpoint"):
        read_checkpoint(tmp_path)


def test_arrays_that_are_no_checkpoint(tmp_path: Path) -> None:
    np.savez(tmp_path / FILE, w=np.zeros(3))
    with pytest.raises(NetFormatError, match="not a checkpoint"):
        read_checkpoint(tmp_path)


def test_a_folder_without_one(tmp_path: Path) -> None:
    with pytest.raises(NetFormatError, match="has no checkpoint"):
        read_checkpoint(tmp_path)
