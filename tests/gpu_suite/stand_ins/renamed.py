"""onnxruntime with another provider under the name of CUDA: what its two modules in this folder share."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

CUDA: Final = "CUDAExecutionProvider"
CPU: Final = "CPUExecutionProvider"
# In the environment: no provider takes the name of CUDA.
OWN_NAME: Final = "GPU_SUITE_OWN_NAME"


def real_library(module: str) -> Any:
    """Return the onnxruntime after the one of this file on the path, and let it take its place."""
    here = Path(module).resolve().parents[1]
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("onnxruntime", path)
    if spec is None or spec.loader is None:
        raise ImportError("the stand-in needs onnxruntime for the CPU")
    library = importlib.util.module_from_spec(spec)
    sys.modules["onnxruntime"] = library
    spec.loader.exec_module(library)
    return library


def is_cuda(provider: Any) -> bool:
    """Whether a provider, a name or a pair of name and options, is CUDA."""
    return CUDA in (provider, provider[0] if isinstance(provider, tuple) else "")


def rename(library: Any, device: str) -> None:
    """Let a library offer CUDA, and its functions that take the device ``cuda`` use another one."""
    library.get_available_providers = lambda: [CUDA, CPU]
    for name in ("ortvalue_from_numpy", "ortvalue_from_shape_and_type"):
        setattr(library.OrtValue, name, staticmethod(_on(device, getattr(library.OrtValue, name))))
    for name in ("bind_input", "bind_output"):
        setattr(library.IOBinding, name, _on(device, getattr(library.IOBinding, name)))


def _on(device: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose argument ``cuda``, in whichever place, becomes another device."""

    def call(*args: Any, **options: Any) -> Any:
        changed = [device if isinstance(value, str) and value == "cuda" else value for value in args]
        given = {key: device if isinstance(value, str) and value == "cuda" else value for key, value in options.items()}
        return function(*changed, **given)

    return call


def install_driver() -> None:
    """Install a CUDA driver with one device."""
    from caffe2_backend.runtime.devices import cuda_driver

    driver: Any = _Driver()
    cuda_driver._driver = lambda: driver  # type: ignore[assignment] # cached in the original


class _Driver:
    """The functions of the CUDA driver that the project calls."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802 - CUDA's name
        count._obj.value = 1
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802 - CUDA's name
        version._obj.value = int(os.environ.get("GPU_SUITE_DRIVER", "13000"))
        return 0
