"""The lock file: content hashes, and what makes a model run again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from caffe2_fleet.models import lock as module
from caffe2_fleet.models.lock import Lock
from caffe2_fleet.task import ModelTask


@pytest.fixture
def model(tmp_path: Path) -> ModelTask:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "predict_net.pb").write_bytes(b"net")
    (folder / "init_net.pb").write_bytes(b"weights")
    for file in folder.iterdir():
        os.utime(file, (1e9, 1e9))
    return ModelTask("m", str(folder))


def key(model: ModelTask, common: str = "options", lock: Lock | None = None) -> str:
    return (lock or Lock()).lock(model, common)[0]


def test_a_key_depends_on_contents_and_on_what_is_asked(model: ModelTask) -> None:
    first = key(model)
    assert Lock().lock(model, "options") == (first, 10)
    assert key(ModelTask("m", model.path, owner="team")) == first
    assert key(model, "others") != first
    assert key(ModelTask("m", model.path, opset=17)) != first
    (Path(model.path) / "init_net.pb").write_bytes(b"WEIGHTS")
    assert key(model) != first


def test_files_that_did_not_change_are_not_read_again(
    model: ModelTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock()
    first = key(model, lock=lock)
    lock.write(tmp_path / "lock")
    monkeypatch.setattr(module.hashlib, "file_digest", lambda *_: pytest.fail("a file was read"))
    assert key(model, lock=Lock.read(tmp_path / "lock")) == first


def test_a_file_that_was_just_written_is_not_trusted(model: ModelTask, tmp_path: Path) -> None:
    file = Path(model.path) / "init_net.pb"
    file.write_bytes(b"weights")
    written = file.stat().st_mtime_ns
    lock = Lock()
    first = key(model, lock=lock)
    lock.write(tmp_path / "lock")
    file.write_bytes(b"WEIGHTS")  # of the same size, and within the resolution of a clock
    os.utime(file, ns=(written, written))
    assert key(model, lock=Lock.read(tmp_path / "lock")) != first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 0}', '{"schema": 1, "files": {"a": [1]}}'])
def test_a_damaged_lock_file_locks_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text, encoding="utf-8")
    assert Lock.read(tmp_path / "lock") == Lock()
    assert Lock.read(tmp_path / "absent") == Lock()


def test_a_model_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Lock().lock(ModelTask("m", str(tmp_path / "none")), "")
