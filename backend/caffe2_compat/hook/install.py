"""Install the hook that imports Caffe2's Python files."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.diagnostics import RunError
from caffe2_compat.hook.finder import PACKAGE, Caffe2Finder, Content
from caffe2_compat.hook.locate import locate
from caffe2_compat.hook.proto import proto_modules
from caffe2_compat.torch_ops.importing import define_with_torch

# Caffe2 imports the first of these that exists. The one with GPUs works on the CPU, too.
_EXTENSIONS: Final = ("caffe2_pybind11_state_gpu", "caffe2_pybind11_state")
_NEEDED: Final = ("future", "past", "six")


def install_caffe2(source: Path | str | None = None) -> Path:
    """Make ``import caffe2`` work in this process: Caffe2's own Python files, on this project's runtime.

    The files are read from the user's copy, which is not written; what Python, NumPy and protobuf of today refuse in
    them is rewritten in memory. Workspaces are those of ``caffe2_backend.workspace``.

    Args:
        source: the folder that contains ``caffe2``, that folder itself, the folder of an environment with torch up to
            1.12, or the wheel of such a release; None for the one that the variable CAFFE2_PYTHON_SOURCES names, or
            else the first on the module search path.

    Returns:
        The folder or wheel.

    Raises RunError if there is none, packages that the files import are missing, or ``caffe2`` was imported from
    elsewhere. A second call for the same copy does nothing.
    """
    installed = next((finder.sources.root for finder in sys.meta_path if isinstance(finder, Caffe2Finder)), None)
    if installed is not None:
        if source is not None and locate(source).root != installed:
            raise RunError(f"Caffe2's Python files are installed from {installed} already")
        return installed
    sources = locate(source)
    if PACKAGE in sys.modules:
        raise RunError("caffe2 is imported already: call install_caffe2 before the first import of it")
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        verb = "is" if len(missing) == 1 else "are"
        raise RunError(f"{names} {verb} missing: pip install 'caffe2-bridge[caffe2]'")
    sys.meta_path.insert(0, Caffe2Finder(sources, _virtual_modules()))
    define_with_torch()
    return sources.root


def _virtual_modules() -> dict[str, Content | None]:
    modules: dict[str, Content | None] = dict.fromkeys((PACKAGE, f"{PACKAGE}.proto", f"{PACKAGE}.python"))
    for name, content in proto_modules().items():
        modules[f"{PACKAGE}.proto.{name}"] = partial(dict, content)
    for name in _EXTENSIONS:
        modules[f"{PACKAGE}.python.{name}"] = _extension
    modules[f"{PACKAGE}.python.onnx.frontend"] = _onnx_frontend
    modules[f"{PACKAGE}.python.onnx.backend"] = _onnx_backend
    return modules


def _onnx_frontend() -> dict[str, Any]:
    from caffe2_compat.hook.onnx_modules import frontend_names

    return frontend_names()


def _onnx_backend() -> dict[str, Any]:
    from caffe2_compat.hook.onnx_modules import backend_names

    return backend_names()


def _extension() -> dict[str, Any]:
    from caffe2_compat.extension import extension_names

    return extension_names()
