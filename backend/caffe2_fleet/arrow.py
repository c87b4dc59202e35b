"""PyArrow, where it is installed: it writes and reads Parquet files."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from caffe2_bridge.diagnostics import RunError


def import_arrow() -> Any:
    """Return the module ``pyarrow`` with ``pyarrow.parquet``. Raises RunError if it is not installed."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise RunError(
            "PyArrow is not installed, which reads and writes .parquet files: "
            "install it with `pip install 'caffe2-bridge[fleet]'`"
        ) from None
    return arrow


def has_arrow() -> bool:
    """Whether PyArrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None
