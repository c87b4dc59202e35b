"""Import optional packages."""

from __future__ import annotations

import importlib
from types import ModuleType

from caffe2_bridge.diagnostics import BridgeError


def required(package: str, what: str) -> ModuleType:
    """Import an optional package. Raises BridgeError with the command that installs it if it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise BridgeError(
            f"{what} require the package {package.partition('.')[0]}: pip install 'caffe2-bridge[db]' ({error}); "
            "a minidb database requires no package"
        ) from None
