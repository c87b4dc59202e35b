"""A save of several files counts as done once its list is written, however its process ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from caffe2_bridge.storage import journal
from caffe2_bridge.storage.temporary_names import temporary_name


def started(folder: Path, *names: str) -> dict[str, str]:
    """Begin to save files that exist with the text "old"; return their temporaries, of the text "new"."""
    pairs = {name: temporary_name(name) for name in names}
    for name, temporary in pairs.items():
        (folder / name).write_text("old")
        (folder / temporary).write_text("new")
    journal.begin(folder, pairs)
    return pairs


def test_readers_see_the_new_files_at_once(tmp_path: Path) -> None:
    pairs = started(tmp_path, "a", "b")
    assert {name: journal.current(tmp_path / name).read_text() for name in "ab"} == {"a": "new", "b": "new"}
    assert journal.holds(tmp_path / "a", tmp_path / pairs["a"])
    assert not journal.holds(tmp_path / "a", tmp_path / pairs["b"])


def test_the_next_save_completes_what_was_interrupted(tmp_path: Path) -> None:
    pairs = started(tmp_path, "a", "b")
    (tmp_path / pairs["a"]).replace(tmp_path / "a")  # the process was killed here
    journal.complete(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "b").read_text() == "new"


@pytest.mark.parametrize(("renamed", "content"), [(False, "old"), (True, "new")])
def test_a_save_that_failed_is_dropped_or_completed(tmp_path: Path, *, renamed: bool, content: str) -> None:
    pairs = started(tmp_path, "a", "b")
    if renamed:
        (tmp_path / pairs["a"]).replace(tmp_path / "a")
    journal.settle(tmp_path, pairs)
    assert journal.pending(tmp_path) == {}
    assert (tmp_path / "b").read_text() == content


def test_a_target_that_someone_else_wrote_stays(tmp_path: Path) -> None:
    started(tmp_path, "a")
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "other").replace(tmp_path / "a")
    journal.complete(tmp_path)
    assert (tmp_path / "a").read_text() == "theirs"


@pytest.mark.parametrize(
    "entries",
    [
        "",
        "[]",
        "{",
        json.dumps({"a": 3}),
        json.dumps({"a": ["b", 0, 0]}),
        json.dumps({"../a": [".a.00000000.tmp", 0, 0]}),
    ],
)
def test_a_damaged_list_names_nothing(tmp_path: Path, entries: str) -> None:
    (tmp_path / journal.NAME).write_text(entries)
    assert journal.pending(tmp_path) == {}
    assert journal.current(tmp_path / "a") == tmp_path / "a"


def test_a_folder_that_was_moved_away_gets_its_new_content(tmp_path: Path) -> None:
    target = tmp_path / "model"
    temporary = tmp_path / temporary_name("model")
    for part in (journal.OLD, journal.NEW):
        (temporary / part).mkdir(parents=True)
        (temporary / part / "file").write_text(part)
    assert journal.current(target) == temporary / journal.NEW
    assert journal.holds(target, temporary)
    journal.complete_folder(target)
    assert (target / "file").read_text() == "new"
    assert not journal.holds(target, temporary)
