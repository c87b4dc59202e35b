"""Paths of models and weights as onnxruntime takes them: UTF-8 only."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.regular_file import is_utf8

WEIGHTS_FOLDER: Final = "session.model_external_initializers_file_folder_path"


@contextmanager
def utf8_paths(model: bytes | str, options: SessionOptions) -> Iterator[tuple[bytes | str, SessionOptions]]:
    """Give what stands for a model, or its path, and options while they are loaded.

    A file whose path is not UTF-8 is read, and a link of another name leads to its weights. Raises OSError.
    """
    path = model if isinstance(model, str) else options.entries.get(WEIGHTS_FOLDER, "")
    if is_utf8(path):
        yield model, options
        return
    content, weights = (model, path) if isinstance(model, bytes) else (Path(path).read_bytes(), Path(path).parent)
    with tempfile.TemporaryDirectory(prefix="caffe2-bridge-", ignore_cleanup_errors=True) as folder:
        link = Path(folder) / "weights"
        link.symlink_to(Path(weights).absolute())
        yield content, dataclasses.replace(options, entries={**options.entries, WEIGHTS_FOLDER: str(link)})
