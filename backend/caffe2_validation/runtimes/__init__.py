"""The runtimes that can be compared. To add one, write a module here and a line in the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_bridge.diagnostics import RunError
from caffe2_validation.runtimes.base import AnyModel, Form, Loaded, Runtime, Value
from caffe2_validation.runtimes.bridge_runtime import BridgeWorkspace
from caffe2_validation.runtimes.deployed import DEPLOYED
from caffe2_validation.runtimes.onnx_reference import OnnxReference
from caffe2_validation.runtimes.onnx_runtime import OnnxRuntime
from caffe2_validation.runtimes.pytorch_runtime import PyTorch
from caffe2_validation.runtimes.real_caffe2 import is_requested, shared_caffe2

__all__ = [
    "ON_DEVICE",
    "RUNTIMES",
    "AnyModel",
    "Form",
    "Loaded",
    "Runtime",
    "Value",
    "find_requested",
    "find_runtime",
    "is_requested",
    "present_runtimes",
]

RUNTIMES: Final[Mapping[str, Callable[[], Runtime]]] = {
    "caffe2": shared_caffe2,
    "onnxruntime-cpu": lambda: OnnxRuntime("cpu"),
    "onnxruntime-cuda": lambda: OnnxRuntime("cuda:0"),
    "onnx-reference": OnnxReference,
    "pytorch": PyTorch,
    "workspace": BridgeWorkspace,
    **{name: partial(DEPLOYED.__getitem__, name) for name in DEPLOYED},
}


# Those that can run on another device than the table says.
ON_DEVICE: Final[Mapping[str, Callable[[str], Runtime]]] = {
    "onnxruntime-cuda": OnnxRuntime,
    "workspace": BridgeWorkspace,
}


def _make(name: str, caffe2_python: str | None, device: str | None) -> Runtime:
    if name == "caffe2" and caffe2_python:
        return shared_caffe2(caffe2_python)
    on_device = device not in (None, CPU) and name in ON_DEVICE
    return ON_DEVICE[name](str(device)) if on_device else RUNTIMES[name]()


def find_runtime(name: str, *, caffe2_python: str | None = None, device: str | None = None) -> Runtime:
    """Return the runtime of that name.

    Args:
        name: a name in ``RUNTIMES``.
        caffe2_python: the Python that has real Caffe2; None finds it.
        device: the GPU of ``onnxruntime-cuda`` and ``workspace``, ``cuda:N``; None or ``cpu`` leaves them as they are.

    Raises RunError if it does not exist, or is not installed.
    """
    if name not in RUNTIMES:
        raise RunError(f"runtime {name!r} does not exist: choose from {', '.join(RUNTIMES)}")
    runtime = _make(name, caffe2_python, device)
    reason = runtime.missing()
    if reason:
        raise RunError(f"runtime {name}: {reason}")
    return runtime


def find_requested(name: str, *, caffe2_python: str | None = None, device: str | None = None) -> Runtime:
    """Do as :func:`find_runtime` for a runtime that the user asks for, and load its parts now.

    Raises RunError if it does not exist, is not installed, or cannot be started: a Python without Caffe2, say.
    """
    runtime = find_runtime(name, caffe2_python=caffe2_python, device=device)
    try:
        runtime.versions()
    except RunError as error:
        raise RunError(f"runtime {name} cannot be started: {error}") from error
    return runtime


def present_runtimes(*, caffe2_python: str | None = None, device: str | None = None) -> list[Runtime]:
    """Return every runtime that is installed, in the order of the table.

    Raises RunError if the user names a Python of real Caffe2 that does not exist or has no Caffe2, or a GPU that is not
    available.
    """
    if device not in (None, CPU):
        find_requested("onnxruntime-cuda", device=device)
    if is_requested(caffe2_python):
        find_requested("caffe2", caffe2_python=caffe2_python)
    made = [_make(name, caffe2_python, device) for name in RUNTIMES]
    return [runtime for runtime in made if not runtime.missing()]
