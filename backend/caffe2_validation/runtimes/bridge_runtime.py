"""This project's own runtime: a net as it is, without an export of the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor, SessionOptions, Workspace
from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.sessions.onnxruntime_library import real_device
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.model import Model
from caffe2_validation.runtimes.base import AnyModel, Form, Value, caffe2_model

_OPTIONS: Final = SessionOptions(threads=1, spinning=False)


class BridgeWorkspace:
    """Nets in a Workspace, on the CPU or on a GPU."""

    name = "workspace"
    form: Form = "caffe2"

    def __init__(self, device: str = CPU) -> None:
        self.device = device

    def missing(self) -> str:
        """See Runtime."""
        try:
            real_device(self.device, _OPTIONS)
        except RunError as error:
            return str(error)
        return ""

    def versions(self) -> dict[str, str]:
        """See Runtime."""
        from importlib.metadata import version

        return {"caffe2-bridge": version("caffe2-bridge")}

    def load(self, model: AnyModel) -> _Loaded:
        """See Runtime."""
        return _Loaded(caffe2_model(model), self.device)


class _Loaded:
    def __init__(self, model: Model, device: str) -> None:
        self._model = model
        self._workspace = Workspace.isolated(device, options=_OPTIONS)

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        workspace, model = self._workspace, self._model
        workspace.remove_blobs()
        try:
            if model.init.parameters or model.init.rest:
                workspace.run_net_once(model.init)
            for name, value in inputs.items():
                workspace.feed(name, value)
            workspace.run_net_once(model.predict_net)
        except BridgeError as error:
            raise RunError(f"workspace: {error}") from error
        wanted = model.outputs if outputs is None else outputs
        found: dict[str, Value] = {}
        for name in wanted:
            try:
                fetched = workspace.fetch(name)
            except RunError:  # no tensor, or not written by the branch that ran
                continue
            if isinstance(fetched, Int8Tensor):
                found[name] = fetched
            elif not isinstance(fetched, bytes):
                array = np.asarray(fetched)
                found[name] = _texts(array) if array.dtype == object else array
        return found


def _texts(array: np.ndarray[tuple[int, ...], np.dtype[np.object_]]) -> Value:
    texts = np.empty(array.size, object)
    texts[:] = [item.decode("latin-1") if isinstance(item, bytes) else item for item in array.ravel()]
    return texts.reshape(array.shape)
