"""The least recently used entries of the cache make room; those in use, and the one to be filled, stay."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from caffe2_bridge.storage.cache.evict import make_room, require_fitting
from caffe2_bridge.storage.cache.locks import try_acquire
from caffe2_bridge.storage.cache.settings import FOLDER_VARIABLE, SIZE_VARIABLE, cache_folder
from caffe2_bridge.storage.errors import StorageError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a cache of 300 bytes."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(SIZE_VARIABLE, "300")
    made = cache_folder() / "host"
    for part in ("state", "files"):
        (made / part).mkdir(parents=True)
    return made


def store(folder: Path, name: str, used: float, size: int = 100) -> Path:
    """Put a file into the cache that was used at a time; return its state."""
    file, state = folder / "files" / name, folder / "state" / f"{name}.json"
    file.write_bytes(bytes(size))
    state.write_text(json.dumps({"file": str(file)}))
    state.with_suffix(".use").touch()
    os.utime(state.with_suffix(".use"), (used, used))
    return state


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "files").iterdir())


@pytest.mark.parametrize(("size", "left"), [(0, ["a", "b", "c"]), (50, ["a", "c"]), (150, ["c"]), (300, [])])
def test_the_least_recently_used_are_removed(folder: Path, size: int, left: list[str]) -> None:
    for name, used in (("a", 2), ("b", 1), ("c", 3)):
        store(folder, name, used)
    make_room(size, folder / "state" / "new.json")
    assert names(folder) == left
    assert sorted(path.stem for path in (folder / "state").glob("*.json")) == left


def test_entries_in_use_and_the_one_to_be_filled_stay(folder: Path) -> None:
    used, kept, _ = (store(folder, name, time) for time, name in enumerate("abc"))
    lock = try_acquire(used.with_suffix(".use"))
    assert lock is not None
    make_room(300, kept)
    lock.release()
    assert names(folder) == ["a", "b"]


def test_an_unfinished_download_is_removed_first(folder: Path) -> None:
    store(folder, "a", 1e12, 250)
    part = folder / "state" / "b.0.part"
    part.write_bytes(bytes(50))
    make_room(50, folder / "state" / "new.json")
    assert names(folder) == ["a"]
    assert not part.exists()


def test_files_of_a_cache_that_was_moved_are_counted(folder: Path) -> None:
    state = store(folder, "a", 1)
    state.write_text(json.dumps({"file": "/elsewhere/files/a"}))
    make_room(250, folder / "state" / "new.json")
    assert names(folder) == []


def test_a_file_beyond_the_limit_is_refused() -> None:
    require_fitting(300, "https://host/file")
    with pytest.raises(StorageError, match=f"has 301 bytes, and the cache holds 300: set {SIZE_VARIABLE}=301"):
        require_fitting(301, "https://host/file")
