"""Import optional packages."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Final

from caffe2_bridge.diagnostics import BridgeError

_HINTS: Final = {"db": "; a minidb database requires no package"}


def required(package: str, what: str, *, extra: str = "db") -> ModuleType:
    """Import an optional package of an extra. Raises BridgeError with the command that installs it if it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise BridgeError(
            f"{what} require the package {package.partition('.')[0]}: pip install 'caffe2-bridge[{extra}]' ({error})"
            f"{_HINTS.get(extra, '')}"
        ) from None
