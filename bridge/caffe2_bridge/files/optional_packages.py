"""Packages that not everyone needs."""

from __future__ import annotations

import importlib
from types import ModuleType

from caffe2_bridge.diagnostics import BridgeError


def required(package: str, what: str) -> ModuleType:
    """An optional package. Raises BridgeError, which says how to get it, where it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise BridgeError(
            f"{what} need the package {package.partition('.')[0]}: pip install 'caffe2-bridge[db]' ({error}); "
            "a minidb database needs none"
        ) from None
