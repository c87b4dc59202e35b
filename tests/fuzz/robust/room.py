"""The folders in which a worker calls doors."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from fuzz.robust.inputs import Input

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - files that are made and removed thousands of times


class Room:
    """The folders of a worker: the input, an empty one to write to, the current one, and one for temporary files.

    They are made once: to make and remove folders takes longer than most calls. A context manager that removes them.
    """

    def __init__(self) -> None:
        base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        self._made = tempfile.TemporaryDirectory(dir=base)
        self._root = Path(self._made.name)
        self.output = self._root / "out"
        self._source = self._root / "in"
        self._inner = self._root / "a" / "b"
        self._temporary = self._root / "tmp"
        self._expected: dict[str, int] = {}
        self._before = Path.cwd(), tempfile.tempdir
        self._build()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.chdir(self._before[0])
        tempfile.tempdir = self._before[1]
        self._made.cleanup()

    def enter(self, found: Input) -> Path:
        """Write an input, and return the path that a door is given."""
        names = {f"in/{name}" for name in found.files}
        if not names.issuperset(self._expected) or self._strays():
            self._build()
        self._expected = {f"in/{name}": len(data) for name, data in found.files.items()}
        os.chdir(self._inner)
        return found.write(self._source)

    def leave(self) -> list[str]:
        """Empty the output; return what was written, changed or removed elsewhere."""
        for entry in list(os.scandir(self.output)):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)  # noqa: PTH108 - the path is a string
        if any(self._temporary.iterdir()):
            gc.collect()  # what removes temporary files when it is no longer used may be part of a cycle
        strays = self._strays()
        if strays:
            self._build()
        return strays

    def _build(self) -> None:
        for folder in (self._root / "a", self.output, self._source, self._temporary):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self._inner, self.output, self._source, self._temporary):
            folder.mkdir(parents=True)
        tempfile.tempdir = str(self._temporary)
        self._expected = {}

    def _strays(self) -> list[str]:
        found = dict(_files(str(self._root), ""))
        return sorted(f"{name}:{size}" for name, size in found.items() ^ self._expected.items())


def _files(folder: str, prefix: str) -> Iterator[tuple[str, int]]:
    """Files of a folder with their sizes, and the folders that have none of their own; without the output."""
    for entry in os.scandir(folder):
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if name not in {"out", "in", "tmp", "a", "a/b"} and not name.startswith("in/"):
                yield name, -1
            if name != "out":
                yield from _files(entry.path, f"{name}/")
        else:
            yield name, entry.stat(follow_symlinks=False).st_size
