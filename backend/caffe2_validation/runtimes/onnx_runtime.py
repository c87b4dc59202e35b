"""onnxruntime, on the CPU and on a CUDA device."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from caffe2_backend.runtime import Int8Tensor, SessionOptions
from caffe2_backend.runtime.devices.device_names import WEBGPU
from caffe2_backend.runtime.sessions.model_session import model_session
from caffe2_backend.runtime.sessions.onnxruntime_library import cuda_devices, real_device
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.sessions.wrong_inputs import wrong_inputs
from caffe2_bridge.diagnostics import RunError
from caffe2_validation.runtimes.base import AnyModel, Form, Value, onnx_model, output_array

_ONE_THREAD: Final = SessionOptions(threads=1, spinning=False)


class OnnxRuntime:
    """onnxruntime with its graph optimizations, one thread an operator so that sums have one order."""

    form: Form = "onnx"

    def __init__(self, device: str, options: SessionOptions = _ONE_THREAD) -> None:
        self.name = "onnxruntime-cpu" if device == "cpu" else "onnxruntime-cuda"
        self.device = device
        self.options = options

    def but(self, **options: Any) -> OnnxRuntime:
        """Return the same with other options, by the names of :class:`SessionOptions`."""
        return OnnxRuntime(self.device, dataclasses.replace(self.options, **options))

    def missing(self) -> str:
        """See Runtime."""
        if self.device == WEBGPU:
            return "it is for CUDA, and not for the device webgpu"
        try:
            real_device(self.device, SessionOptions())
        except RunError as error:
            return str(error)
        return "" if self.device == "cpu" or cuda_devices() else "no CUDA device is available"

    def versions(self) -> dict[str, str]:
        """See Runtime."""
        from importlib.metadata import PackageNotFoundError, version

        for name in ("onnxruntime", "onnxruntime-gpu"):
            try:
                return {name: version(name)}
            except PackageNotFoundError:
                continue
        return {}

    def load(self, model: AnyModel) -> _Loaded:
        """See Runtime."""
        return _Loaded(model_session(onnx_model(model), self.device, self.options))


class _Loaded:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._names = frozenset((*session.inputs, *session.optional))

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        plain = {name: v.data if isinstance(v, Int8Tensor) else v for name, v in inputs.items() if name in self._names}
        try:
            found = self._session.run(plain, outputs)
        except RunError as error:
            wrong = wrong_inputs(plain, self._session.input_types())
            if wrong:
                raise RunError(wrong) from error
            raise
        return {name: output_array(name, value) for name, value in found.items()}
