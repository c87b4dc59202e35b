"""Find a copy of Caffe2's Python files: in a folder, an environment, a source tree or a wheel."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from caffe2_bridge.diagnostics import RunError

VARIABLE: Final = "CAFFE2_PYTHON_SOURCES"
_MARK: Final = "caffe2/python/core.py"
_HINT: Final = (
    "such files are in an environment with torch 1.0 to 1.12, in a source tree of PyTorch of that time, and in the "
    "wheel of such a release (pip download --no-deps torch==1.12.1); name one of them with --caffe2, "
    f"install_caffe2 or the variable {VARIABLE}"
)


class Sources(Protocol):
    """A copy of Caffe2's Python files. Paths are relative to it, as in ``caffe2/python/core.py``."""

    root: Path

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        ...


class FolderSources:
    """A copy in a folder that contains ``caffe2``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        return (self.root / path).is_dir()


class WheelSources:
    """A copy in a wheel or another zip file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with zipfile.ZipFile(root) as archive:
            self._files = frozenset(name for name in archive.namelist() if name.startswith("caffe2/"))
        self._folders = frozenset(str(parent) for name in self._files for parent in Path(name).parents)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        if path not in self._files:
            return None
        with zipfile.ZipFile(self.root) as archive:
            return archive.read(path)

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder."""
        return path in self._folders


def locate(given: Path | str | None = None) -> Sources:
    """Find a copy.

    Args:
        given: the folder that contains ``caffe2``, that folder itself, an environment's folder, or a wheel; None for
            the one that the variable CAFFE2_PYTHON_SOURCES names, or else the first on the module search path.

    Raises RunError if there is none.
    """
    name = given or os.environ.get(VARIABLE)
    if name is not None:
        found = _copy(Path(name))
        if found is None:
            raise RunError(f"{name} does not contain Caffe2's Python files ({_MARK}); {_HINT}")
        return found
    for entry in dict.fromkeys(sys.path):
        if (Path(entry) / _MARK).is_file():
            return FolderSources(Path(entry).absolute())
    raise RunError(f"Caffe2's Python files are not found; {_HINT}")


def _copy(path: Path) -> Sources | None:
    if path.is_file() and zipfile.is_zipfile(path):
        wheel = WheelSources(path.absolute())
        return wheel if wheel.read(_MARK) is not None else None
    return next((FolderSources(root.absolute()) for root in _roots(path) if (root / _MARK).is_file()), None)


def _roots(path: Path) -> Iterator[Path]:
    """Yield the folders that may contain ``caffe2``, for a folder that a user names."""
    yield path
    if path.name in ("caffe2", "torch"):
        yield path.parent
    if path.name == "python":
        yield path.parent.parent
    yield from sorted(path.glob("lib/python3*/site-packages"))
    yield path / "Lib" / "site-packages"
