"""onnxruntime with the CPU under the name of CUDA, and a CUDA driver with one device, for rehearsals without a GPU.

This folder comes first on the path: the module replaces itself by the onnxruntime that stands after it, and changes
that. Environment variables plan faults: GPU_SUITE_DRIVER (the driver's CUDA version, such as 12040), GPU_SUITE_PROVIDER
(a folder that takes the place of onnxruntime's own when its CUDA provider's libraries are looked for).
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

CUDA: Final = "CUDAExecutionProvider"
_HERE: Final = Path(__file__).resolve().parents[1]


def _real() -> Any:
    """Return the onnxruntime after this one on the path."""
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("onnxruntime", path)
    if spec is None or spec.loader is None:
        raise ImportError("the stand-in needs onnxruntime for the CPU")
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnxruntime"] = module
    spec.loader.exec_module(module)
    return module


def _on_cpu(function: Any) -> Any:
    """Return a function whose argument ``cuda``, in whichever place, becomes ``cpu``."""

    def call(*args: Any, **options: Any) -> Any:
        changed = ["cpu" if isinstance(value, str) and value == "cuda" else value for value in args]
        given = {key: "cpu" if key == "device_type" else value for key, value in options.items()}
        return function(*changed, **given)

    return call


def _is_cuda(provider: Any) -> bool:
    return CUDA in (provider, provider[0] if isinstance(provider, tuple) else "")


def _change(library: Any) -> None:
    class InferenceSession(library.InferenceSession):  # type: ignore[misc] # the real one has no types
        def __init__(
            self, model: Any, options: Any = None, providers: Sequence[Any] = (), *more: Any, **named: Any
        ) -> None:
            self._asked_for_cuda = any(map(_is_cuda, providers))
            kept = [provider for provider in providers if not _is_cuda(provider)]
            super().__init__(model, options, kept or None, *more, **named)

        def get_providers(self) -> list[str]:
            names: list[str] = super().get_providers()
            return [CUDA, *names] if self._asked_for_cuda else names

    library.InferenceSession = InferenceSession
    library.get_available_providers = lambda: [CUDA, "CPUExecutionProvider"]
    for owner, name in (
        (library.OrtValue, "ortvalue_from_numpy"),
        (library.OrtValue, "ortvalue_from_shape_and_type"),
    ):
        setattr(owner, name, staticmethod(_on_cpu(getattr(owner, name))))
    for name in ("bind_input", "bind_output"):
        setattr(library.IOBinding, name, _on_cpu(getattr(library.IOBinding, name)))
    provider = os.environ.get("GPU_SUITE_PROVIDER")
    if provider:
        library.__file__ = str(Path(provider) / "__init__.py")


class _Driver:
    """The functions of the CUDA driver that the project calls: one device without memory of its own."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802 - CUDA's name
        count._obj.value = 1
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802 - CUDA's name
        version._obj.value = int(os.environ.get("GPU_SUITE_DRIVER", "13000"))
        return 0

    def cuMemcpyDtoD_v2(self, to: Any, source: Any, size: Any) -> int:  # noqa: N802 - CUDA's name
        ctypes.memmove(to.value, source.value, size.value)
        return 0


def _install_driver() -> None:
    from caffe2_backend.runtime.devices import cuda_driver

    driver: Any = _Driver()
    cuda_driver._driver = lambda: driver  # type: ignore[assignment] # cached in the original


_change(_real())
_install_driver()
