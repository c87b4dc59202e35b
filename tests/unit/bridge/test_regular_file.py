from __future__ import annotations

import os
from pathlib import Path

import pytest

from caffe2_bridge.regular_file import open_regular, require_replaceable


def test_regular_files_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"content"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
        with pytest.raises(OSError, match="not a regular file"):
            require_replaceable(path)
    require_replaceable(tmp_path / "file")
    require_replaceable(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
