"""The content of files, local or remote."""

from __future__ import annotations

from pathlib import Path

from caffe2_bridge.regular_file import read_regular
from caffe2_bridge.storage.publish import AnyPath


def read_file(path: AnyPath) -> bytes:
    """Return the content of a regular file, or of the current version of a remote one. Raises OSError."""
    return read_regular(path if isinstance(path, Path) else path.local())
