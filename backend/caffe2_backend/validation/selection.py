"""The runtimes of a validation: those that the options name, else the default ones that are installed."""

from __future__ import annotations

from typing import Final

from caffe2_backend.validation.options import ValidationOptions
from caffe2_backend.validation.runtimes import Form, Runtime, find_requested, find_runtime, is_requested
from caffe2_bridge.diagnostics import RunError

DEFAULT_RUNTIMES: Final = ("caffe2", "onnxruntime-cpu", "onnx-reference")


def select_runtimes(options: ValidationOptions, form: Form) -> tuple[list[Runtime], dict[str, str]]:
    """The runtimes, the reference first, and the reasons why default ones are missing.

    Args:
        options: of the validation.
        form: the model's own form: default runtimes of this form come first, as the reference should run the model
            itself and not its conversion.

    Raises RunError if a runtime that the options or the environment ask for is not installed: one that is named, or
    real Caffe2 if its Python is.
    """
    python = options.caffe2_python
    if options.runtimes is not None:
        return [find_requested(r, caffe2_python=python) if isinstance(r, str) else r for r in options.runtimes], {}
    found: list[Runtime] = []
    missing: dict[str, str] = {}
    for name in DEFAULT_RUNTIMES:
        find = find_requested if name == "caffe2" and is_requested(python) else find_runtime
        try:
            found.append(find(name, caffe2_python=python))
        except RunError as error:
            if find is find_requested:
                raise
            missing[name] = str(error)
    if form == "onnx":
        found.sort(key=lambda runtime: runtime.form != "onnx")
    return found, missing
