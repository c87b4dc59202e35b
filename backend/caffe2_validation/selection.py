"""The runtimes of a validation: those that the options name, else the default ones that are installed."""

from __future__ import annotations

from typing import Final

from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_bridge.diagnostics import OptionError, RunError
from caffe2_validation.options import ValidationOptions
from caffe2_validation.runtimes import Form, Runtime, find_requested, find_runtime, is_requested, present_runtimes

DEFAULT_RUNTIMES: Final = ("caffe2", "onnxruntime-cpu", "onnx-reference", "pytorch")
_CPU_TO_GPU: Final = {"onnxruntime-cpu": "onnxruntime-cuda"}


def select_runtimes(options: ValidationOptions, form: Form) -> tuple[list[Runtime], dict[str, str]]:
    """Return the runtimes, the reference first, and the reasons why default ones are missing.

    Args:
        options: of the validation.
        form: the model's own form: default runtimes of this form come first, as the reference should run the model
            itself and not its conversion.

    Raises OptionError if a runtime is named twice. Raises RunError if one that the options or the environment ask for
    is not installed: one that is named, real Caffe2 if its Python is, or onnxruntime for CUDA if the device is a GPU.
    """
    python, device = options.caffe2_python, options.device
    if options.runtimes is not None:
        named = options.runtimes
        again = [runtime for index, runtime in enumerate(named) if runtime in named[:index]]
        if again:
            name = again[0] if isinstance(again[0], str) else again[0].name
            raise OptionError(f"runtime {name} is named twice, and agrees with itself: name another")
        return [find_requested(r, caffe2_python=python, device=device) if isinstance(r, str) else r for r in named], {}
    if options.every_runtime:
        return present_runtimes(caffe2_python=python, device=device), {}
    on_gpu = _CPU_TO_GPU if device not in (None, CPU) else {}
    found: list[Runtime] = []
    missing: dict[str, str] = {}
    for name in DEFAULT_RUNTIMES:
        is_asked = name in on_gpu or (name == "caffe2" and is_requested(python))
        find = find_requested if is_asked else find_runtime
        try:
            found.append(find(on_gpu.get(name, name), caffe2_python=python, device=device))
        except RunError as error:
            if find is find_requested:
                raise
            missing[name] = str(error).removeprefix(f"runtime {name}: ")
    if form == "onnx":
        found.sort(key=lambda runtime: runtime.form != "onnx")
    return found, missing
