"""Temporaries are removed at their end, and by the next save if their process was killed."""

from __future__ import annotations

from pathlib import Path

from caffe2_bridge.storage import journal
from caffe2_bridge.storage.temporaries import remove_abandoned, temporary_file, temporary_folder
from caffe2_bridge.storage.temporary_names import is_temporary_of, temporary_name


def test_a_temporary_has_the_permissions_of_its_target_and_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    target.chmod(0o640)
    with temporary_file(target) as path:
        assert is_temporary_of(path.name, "a")
        assert path.stat().st_mode & 0o777 == 0o640
    assert not path.exists()


def test_a_temporary_that_was_renamed_stays(tmp_path: Path) -> None:
    with temporary_file(tmp_path / "a") as path:
        path.write_text("new")
        path.replace(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "new"


def test_a_temporary_of_a_save_that_counts_as_done_stays(tmp_path: Path) -> None:
    with temporary_file(tmp_path / "a") as path:
        journal.begin(tmp_path, {"a": path.name})
    assert path.exists()


def test_a_temporary_folder_is_removed_with_its_files(tmp_path: Path) -> None:
    with temporary_folder(tmp_path / "model", 0o700) as path:
        (path / "file").write_text("content")
        assert path.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_temporaries_of_processes_that_ended_are_removed(tmp_path: Path) -> None:
    abandoned, other = tmp_path / temporary_name("a"), tmp_path / temporary_name("b")
    abandoned.write_text("")
    other.write_text("")
    folder = tmp_path / temporary_name("a")
    folder.mkdir()
    with temporary_file(tmp_path / "a") as used:
        remove_abandoned(tmp_path / "a")
        assert sorted(tmp_path.iterdir()) == sorted([other, used])
