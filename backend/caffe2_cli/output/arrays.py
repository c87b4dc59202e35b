"""Arrays in .npz files: inputs and outputs of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.files.npz import read_npz
from caffe2_bridge.storage import AnyPath


def read_arrays(path: AnyPath) -> dict[str, Any]:
    """Read arrays by name. Raises NetFormatError if the file is not an .npz file of plain arrays, OSError."""
    return dict(read_npz(path))


def require_arrays(arrays: Mapping[str, Any]) -> None:
    """Raise RunError for a sequence, a map or a missing optional value, which an .npz file has no array for."""
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray):
            kind = "empty" if value is None else "a map" if isinstance(value, dict) else "a sequence"
            raise RunError(
                f"output {name!r} is {kind}, which an .npz file cannot hold: choose other outputs with --output"
            )
