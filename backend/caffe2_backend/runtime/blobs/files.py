"""Where the paths that nets name lie: below a root folder, or in a folder that holds nothing of the user's."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp


class Files:
    """Paths below a root folder, and absolute ones as they are: what Caffe2 does.

    Attributes:
        root: the folder of relative paths.
    """

    root: str = "."

    def clear(self) -> None:
        """Remove the files that nets wrote, where no others can be meant."""

    def path(self, name: str, *, absolute: bool = False) -> str:
        """Return where a path of a net lies; ``absolute`` if its operator does not look below the root folder."""
        return name if absolute else os.path.join(self.root, name)  # noqa: PTH118 - as it is written, to name it in messages


class IsolatedFiles(Files):
    """All paths lie in a temporary folder, which is made for the first one and removed with this object.

    A net that is only judged leaves the files of the user alone: ``/home/user/a`` and ``../../home/user/a`` lie at
    ``<folder>/home/user/a``, whose folder is made.
    """

    @cached_property
    def root(self) -> str:  # type: ignore[override] # computed when it is asked for
        """The temporary folder."""
        folder = mkdtemp(prefix="caffe2-bridge-")
        weakref.finalize(self, rmtree, folder, ignore_errors=True)
        return folder

    def clear(self) -> None:
        """See Files."""
        for entry in os.scandir(self.root) if "root" in vars(self) else ():
            rmtree(entry) if entry.is_dir(follow_symlinks=False) else Path(entry).unlink()

    def path(self, name: str, *, absolute: bool = False) -> str:  # noqa: ARG002 - none is absolute
        """See Files."""
        path = Path(self.root, os.path.normpath(f"/{name}").lstrip("/"))
        with suppress(OSError, ValueError):  # reported by whoever opens the file
            path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)
