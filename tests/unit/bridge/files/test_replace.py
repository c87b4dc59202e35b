"""Two saves in a row, the first killed, the second ended at each of its calls: a reader finds the files of one save."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from caffe2_bridge.files import replace
from caffe2_bridge.files.open_files import open_together
from caffe2_bridge.files.replace import replace_files, replace_folder
from caffe2_bridge.storage import journal

NAMES = ("init_net.pb", "predict_net.pb")
EVENTS = frozenset({"open", "os.rename", "os.remove", "os.rmdir", "os.chmod", "fcntl.flock", "os.mkdir"})
RENAMES = frozenset({"os.rename", "os.remove"})
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

Save = Callable[[Path, str], None]
Read = Callable[[Path], set[str]]
End = Callable[[], None]


def save(folder: Path, content: str) -> None:
    def write(path: Path) -> None:
        path.write_text(content)

    replace_files([(folder / name, write) for name in NAMES])


def read(folder: Path) -> set[str]:
    first, second = open_together(folder / NAMES[1], folder / NAMES[0])
    assert second is not None
    return {span.tobytes().decode() for span in (first, second)}


def save_folder(folder: Path, content: str) -> None:
    def write(new: Path) -> None:
        for name in NAMES:
            (new / name).write_text(content)

    replace_folder(folder / "db", write)


def read_folder(folder: Path) -> set[str]:
    found = journal.current(folder / "db")
    return {(found / name).read_text() for name in NAMES}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt


def refuse() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def ended_early(run: Callable[[], None], at: int, end: End, events: frozenset[str] = EVENTS) -> bool:
    """Run in a copy of this process, and call ``end`` at one of its calls; return whether there were so many."""
    process = os.fork()
    if not process:
        seen = 0

        def hook(event: str, _: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in events:
                seen += 1
                if seen == at:
                    end()

        with suppress(BaseException):
            sys.addaudithook(hook)
            run()
        os._exit(3 if seen >= at else 0)
    return os.waitpid(process, 0)[1] != 0


@pytest.mark.parametrize("second", [die, interrupt, refuse])
@pytest.mark.parametrize(
    ("write", "look", "exchanged", "rename"),
    [
        (save, read, True, 2),
        (save, read, True, 3),
        (save_folder, read_folder, True, 2),
        (save_folder, read_folder, False, 2),
    ],
    ids=["files, none renamed", "files, one renamed", "folder", "folder in two steps"],
)
def test_two_saves_that_end_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Save, look: Read, exchanged: bool, rename: int, second: End
) -> None:
    if not exchanged:
        monkeypatch.setattr(replace, "_renamed_at_once", lambda *_: False)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # which no process that ends misses, and which takes long
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        write(folder, "0")
        ended_early(lambda: write(folder, "1"), rename, die, RENAMES)  # noqa: B023
        assert look(folder) in ({"0"}, {"1"})
        more = ended_early(lambda: write(folder, "2"), at, second)  # noqa: B023
        assert look(folder) in ({"0"}, {"1"}, {"2"}), at
        write(folder, "3")
        assert look(folder) == {"3"}
        assert not list(folder.glob(".*"))
        if not more:
            break
    assert at > 5
