"""Train an exported training net: an ONNX model of one step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from caffe2_backend.admission import admit_file, load_proto
from caffe2_backend.runtime import DeviceTensor
from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.values import Array
from caffe2_backend.training.trainer import require_same_state
from caffe2_bridge.diagnostics import NetFormatError, OptionError, RunError
from caffe2_bridge.storage import AnyPath
from caffe2_frontend import save_onnx
from caffe2_frontend.interop.metadata.training import read_training_metadata


class OnnxTrainer:
    """An ONNX model of one training step; what it updates stays on the device between steps.

    Args:
        path: the model's file.
        device: ``cpu`` or ``cuda:N``; None is the CPU.

    Raises:
        OptionError: the model does not train.
        NetFormatError: an updated input has no value.
        ConversionError, RunError, OSError: the model cannot be read or loaded.
    """

    def __init__(self, path: AnyPath, device: str | None = None) -> None:
        self._model = load_proto(path)
        found = read_training_metadata(self._model)
        if found is None:
            raise OptionError(
                f"{path}: the model does not train: export a training net (its metadata then name what it updates)"
            )
        self._feeds = found.updates
        defaults = {tensor.name: tensor for tensor in self._model.graph.initializer}
        missing = [name for name in found.updates if name not in defaults]
        if missing:
            raise NetFormatError(f"the model has no values for {', '.join(map(repr, missing))}: export the net with "
                                 "its init net", str(path))  # fmt: skip
        self._values: dict[str, Array | DeviceTensor] = {
            name: onnx.numpy_helper.to_array(defaults[name]) for name in found.updates
        }
        admitted = admit_file(path)
        self._session = Session(admitted.path, device or CPU)
        self.inputs = tuple(name for name in self._session.inputs if name not in found.updates)
        self.optional = frozenset(self._session.optional).difference(found.updates)
        self.losses = found.losses
        fed = set(found.updates.values())
        self.candidates = tuple(name for name in self._session.outputs if name not in fed)
        self._outputs: dict[str, Array | DeviceTensor] = {}

    def input_types(self) -> Mapping[str, str]:
        """See Trainer."""
        return {name: text for name, text in self._session.input_types().items() if name in self.inputs}

    def step(self, batch: Mapping[str, Array]) -> None:
        """See Trainer."""
        found = self._session.run_on_device({**batch, **self._values})
        self._values = {name: found[output] for name, output in self._feeds.items()}
        self._outputs = found

    def output(self, name: str) -> Array:
        """See Trainer."""
        if name not in self._outputs:
            raise RunError(f"the model has no output {name!r}, or no step was run")
        return _on_host(self._outputs[name])

    def state(self) -> dict[str, Array]:
        """See Trainer."""
        return {name: np.array(_on_host(value)) for name, value in self._values.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """See Trainer. Raises NetFormatError if the state is that of another model."""
        require_same_state(state, self.state())
        self._values = dict(state)

    def write(self, folder: AnyPath, batch: Mapping[str, Array], *, open_dims: bool) -> list[AnyPath]:
        """See Trainer: ``model.onnx`` with the trained values as defaults."""
        del batch, open_dims  # the model has its types
        trained = onnx.ModelProto()
        trained.CopyFrom(self._model)
        values = self.state()
        for tensor in trained.graph.initializer:
            if tensor.name in values:
                tensor.CopyFrom(onnx.numpy_helper.from_array(values[tensor.name], tensor.name))
        return save_onnx(trained, folder / "model.onnx")


def _on_host(value: Array | DeviceTensor) -> Array:
    return value.numpy() if isinstance(value, DeviceTensor) else value
