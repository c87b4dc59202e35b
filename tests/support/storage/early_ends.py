"""Saves in copies of a process that end early: it is copied thousands of times, so it should be a small one."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from caffe2_bridge.files import replace
from caffe2_bridge.files.open_files import open_together
from caffe2_bridge.files.replace import replace_files, replace_folder
from caffe2_bridge.storage import journal

NAMES: Final = ("init_net.pb", "predict_net.pb")
EVENTS: Final = frozenset({"open", "os.rename", "os.remove", "os.rmdir", "os.chmod", "fcntl.flock", "os.mkdir"})
RENAMES: Final = frozenset({"os.rename", "os.remove"})

Save = Callable[[Path, str], None]
Read = Callable[[Path], set[str]]
End = Callable[[], None]


def save(folder: Path, content: str) -> None:
    """Save files one by one."""

    def write(path: Path) -> None:
        path.write_text(content)

    replace_files([(folder / name, write) for name in NAMES])


def read(folder: Path) -> set[str]:
    """Return what is in the files that :func:`save` writes."""
    first, second = open_together(folder / NAMES[1], folder / NAMES[0])
    assert second is not None
    return {span.tobytes().decode() for span in (first, second)}


def save_folder(folder: Path, content: str) -> None:
    """Save a folder."""

    def write(new: Path) -> None:
        for name in NAMES:
            (new / name).write_text(content)

    replace_folder(folder / "db", write)


def read_folder(folder: Path) -> set[str]:
    """Return what is in the files of the folder that :func:`save_folder` writes."""
    found = journal.current(folder / "db")
    return {(found / name).read_text() for name in NAMES}


def die() -> None:
    """End the process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


def refuse() -> None:
    """Raise what a full disk raises."""
    raise OSError(errno.ENOSPC, "No space left on device")


def two_early_ends(folder: Path, write: Save, look: Read, exchanged: bool, rename: int, second: End) -> int:
    """Save twice, the first killed at a rename, the second ended at each of its calls; return how many these are.

    After each end a reader must find what one save wrote, and the next save must leave what it wrote and nothing else.
    """
    with ExitStack() as patches:
        if not exchanged:
            patches.enter_context(patch.object(replace, "_renamed_at_once", return_value=False))
        patches.enter_context(patch.object(os, "fsync"))  # no process that ends misses it, and it takes long
        return _calls_of_second(folder, write, look, rename, second)


def _calls_of_second(folder: Path, write: Save, look: Read, rename: int, second: End) -> int:
    for at in itertools.count(1):
        place = folder / str(at)
        place.mkdir()
        write(place, "0")
        _ended_early(lambda: write(place, "1"), rename, die, RENAMES)  # noqa: B023
        assert look(place) in ({"0"}, {"1"}), at
        more = _ended_early(lambda: write(place, "2"), at, second)  # noqa: B023
        assert look(place) in ({"0"}, {"1"}, {"2"}), at
        write(place, "3")
        assert look(place) == {"3"}, at
        assert not list(place.glob(".*")), at
        if not more:
            return at
    raise AssertionError


def _ended_early(run: Callable[[], None], at: int, end: End, events: frozenset[str] = EVENTS) -> bool:
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
