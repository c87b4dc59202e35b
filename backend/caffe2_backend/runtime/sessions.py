"""onnxruntime sessions: the one place that imports it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import RunError

Array = np.ndarray[Any, Any]

_WARNINGS_AND_WORSE: Final = 2
_ERRORS_AND_WORSE: Final = 3


class Session:
    """An ONNX model ready to run.

    Args:
        model: the serialized model, or the path of a file.
        device: ``cpu`` or ``cuda:N``.
        threads: threads within an operator; None leaves it to onnxruntime (one a core).
        verbose: show onnxruntime's warnings.

    Raises:
        RunError: onnxruntime is missing, cannot load the model, or has no such device.
    """

    def __init__(
        self, model: bytes | str, device: str = "cpu", *, threads: int | None = None, verbose: bool = False
    ) -> None:
        runtime = _onnxruntime()
        options = runtime.SessionOptions()
        options.log_severity_level = _WARNINGS_AND_WORSE if verbose else _ERRORS_AND_WORSE
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self._session = runtime.InferenceSession(model, options, providers=_providers(device))
        except _failures() as error:
            raise RunError(f"onnxruntime cannot load the model: {error}") from error
        self.inputs = tuple(value.name for value in self._session.get_inputs())
        self.outputs = tuple(value.name for value in self._session.get_outputs())

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model: arrays in, arrays out, by name.

        Names that the model does not have are not used. Raises RunError where an input is missing or the run fails.
        """
        missing = [name for name in self.inputs if name not in inputs]
        if missing:
            raise RunError(f"input {', '.join(map(repr, missing))} is not given")
        wanted = list(self.outputs if outputs is None else outputs)
        try:
            values = self._session.run(wanted, {name: inputs[name] for name in self.inputs})
        except _failures() as error:
            raise RunError(f"onnxruntime: {error}") from error
        return dict(zip(wanted, values, strict=True))


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise RunError(
            "onnxruntime is not installed: install caffe2-bridge[cpu], or caffe2-bridge[gpu] for CUDA (not both)"
        ) from None
    if not hasattr(onnxruntime, "InferenceSession"):
        raise RunError("onnxruntime is damaged, as when onnxruntime and onnxruntime-gpu are both installed: keep one")
    return onnxruntime


def _failures() -> tuple[type[Exception], ...]:
    """What onnxruntime raises where the model or its inputs are at fault."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return (
        state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile,
        state.NotImplemented, state.RuntimeException, state.EPFail, RuntimeError, ValueError,
    )  # fmt: skip


def _providers(device: str) -> list[Any]:
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", device)
    if match is None:
        raise RunError(f"device {device!r} is neither 'cpu' nor 'cuda:N'")
    if device == "cpu":
        return ["CPUExecutionProvider"]
    available = _onnxruntime().get_available_providers()
    if "CUDAExecutionProvider" not in available:
        raise RunError("this onnxruntime has no CUDA: install caffe2-bridge[gpu] in place of caffe2-bridge[cpu]")
    return [("CUDAExecutionProvider", {"device_id": int(match[1] or 0)}), "CPUExecutionProvider"]
