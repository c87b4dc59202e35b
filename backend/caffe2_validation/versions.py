"""Versions of the packages that a validation depends on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

_PACKAGES: Final = (
    "caffe2-bridge",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnx",
    "onnx-ir",
    "onnxscript",
    "numpy",
    "protobuf",
)


def package_versions() -> dict[str, str]:
    """Return versions by name: the installed packages that convert and run models, Python, and the platform."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {"Python": platform.python_version(), "platform": platform.platform()}
