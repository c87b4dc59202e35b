"""PyTorch: a net as a module, which shares no conversion with the export to ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from caffe2_backend.runtime.values import Int8Tensor
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_validation.runtimes.base import AnyModel, Form, Value, caffe2_model


class PyTorch:
    """Nets as modules of PyTorch, on the CPU."""

    name = "pytorch"
    form: Form = "caffe2"

    def missing(self) -> str:
        """See Runtime."""
        return "" if find_spec("torch") else "PyTorch is not installed: pip install 'caffe2-bridge[torch]'"

    def versions(self) -> dict[str, str]:
        """See Runtime."""
        from importlib.metadata import version

        return {"torch": version("torch")}

    def load(self, model: AnyModel) -> _Loaded:
        """See Runtime."""
        return _Loaded(model)


class _Loaded:
    """A module, made anew where blobs are asked for that the net's own outputs do not need."""

    def __init__(self, model: AnyModel) -> None:
        self._model = caffe2_model(model)
        self._outputs: tuple[str, ...] | None = None
        self._module = self._made(None)

    def _made(self, outputs: Sequence[str] | None) -> Any:
        from caffe2_torch import to_torch

        try:
            return to_torch(self._model, outputs=outputs)
        except BridgeError as error:
            raise RunError(f"pytorch cannot load the model: {error}") from error

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        import torch

        wanted = None if outputs is None else tuple(outputs)
        if wanted != self._outputs:
            self._module, self._outputs = self._made(wanted), wanted
        read = {*self._module.inputs, *self._module.names}  # of a net that is cut, not all inputs
        fed = {name: value for name, value in inputs.items() if name in read}
        try:
            with torch.no_grad():
                # Operator by operator: layers are matched by what the export matches cells with.
                found = self._module.run(fed, self._module.outputs)
        except BridgeError as error:
            raise RunError(f"pytorch: {error}") from error
        return {name: _value(value) for name, value in found.items()}


def _value(value: Any) -> Value:
    """Return an output as an array, strings or an Int8 tensor."""
    if isinstance(value, tuple):
        data, scale, zero_point = value
        return Int8Tensor(np.asarray(data), scale, zero_point)
    return np.asarray(value)
