"""Train a Caffe2 net in a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime import Int8Tensor, Workspace
from caffe2_backend.runtime.sessions.missing_inputs import net_inputs
from caffe2_backend.runtime.values import Array
from caffe2_backend.training.trained_net import random_fills, with_values
from caffe2_backend.training.trainer import require_same_state
from caffe2_bridge import save
from caffe2_bridge.diagnostics import ConversionError, OptionError, RunError
from caffe2_bridge.diagnostics.log import muted
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.readers import cut_readers
from caffe2_bridge.storage import AnyPath
from caffe2_bridge.training import training_net, training_outputs
from caffe2_frontend import ExportOptions, convert, save_onnx


class NetTrainer:
    """A training net, whose parameters stay in a workspace; readers of databases at its head are cut off.

    Args:
        model: the net, with its init net.
        device: where it runs, as for a Workspace.
        seed: of random fills of the init net.
        loss: a blob that each step returns in addition; None for the net's own outputs.

    Raises:
        OptionError: the net does not train, or does not write ``loss``.
        ConversionError, RunError: the init net cannot be run.
    """

    def __init__(self, model: Model, device: str | None = None, *, seed: int = 0, loss: str | None = None) -> None:
        given, model = model, cut_readers(model)
        init = model.init
        made = {*init.parameters, *(name for op in init.rest for name in op.outputs)}
        found = training_net(model.predict_net, made)
        if found is None:
            raise OptionError(
                f"net {model.predict_net.name!r} does not train: it needs gradient operators, and an init net that "
                "fills the parameters that it updates"
            )
        self.inputs, self.losses = model.inputs, found.losses
        self.optional = init.replaceable.difference(found.updated)
        outputs = training_outputs(model.predict_net, found)
        self.candidates = outputs if loss is None else tuple(dict.fromkeys((*outputs, loss)))
        self._given, self._model, self._updated = given, model, found.updated
        self._net = NetDef()
        self._net.CopyFrom(model.predict_net)
        self._net.name = model.predict_net.name or "train"
        written = {name for op in self._net.op for name in op.output}
        if loss is not None and loss not in written:
            raise OptionError(f"loss {loss!r} is not a blob that the net writes")
        del self._net.external_output[:]
        self._net.external_output.extend(self.candidates)
        self._workspace = Workspace(device, seed=seed)
        with muted():  # an init net declares objects, such as mutexes, among its outputs
            self._workspace.run_net_once(init)
        self._workspace.create_net(self._net)

    def input_types(self) -> Mapping[str, str]:
        """See Trainer."""
        return net_inputs(self._model)

    def step(self, batch: Mapping[str, Array]) -> None:
        """See Trainer."""
        for name, value in batch.items():
            self._workspace.feed(name, value)
        self._workspace.run_net(self._net.name)

    def output(self, name: str) -> Array:
        """See Trainer."""
        return self._fetch(name)

    def state(self) -> dict[str, Array]:
        """See Trainer."""
        return {name: self._fetch(name) for name in self._updated}

    def restore(self, state: Mapping[str, Array]) -> None:
        """See Trainer. Raises NetFormatError if the state is that of another net."""
        require_same_state(state, self.state())
        for name, value in state.items():
            self._workspace.feed(name, value)

    def trained(self) -> Model:
        """Return the net with an init net that fills what was updated, or random before, with the present values."""
        fixed = {name: self._fetch(name) for name in random_fills(self._model)}
        return with_values(self._given, fixed | self.state())

    def write(self, folder: AnyPath, batch: Mapping[str, Array], *, open_dims: bool) -> list[AnyPath]:
        """See Trainer: ``init_net.pb`` with the trained values, ``predict_net.pb`` unchanged, and ``model.onnx``."""
        trained = self.trained()
        save(trained, folder)
        written = [folder / "init_net.pb", folder / "predict_net.pb"]
        return written + save_onnx(self._convert(trained, batch, open_dims=open_dims), folder / "model.onnx")

    def _fetch(self, name: str) -> Array:
        value = self._workspace.fetch(name)
        if isinstance(value, Int8Tensor | bytes):
            raise RunError(f"blob {name!r} is not a tensor of numbers")
        return np.asarray(value)

    def _convert(self, model: Model, batch: Mapping[str, Array], *, open_dims: bool) -> Any:
        """Export for data like a batch: of any number of rows, or of any sizes; of these sizes where that is needed."""
        leading = {name: (value.dtype, ["N", *value.shape[1:]]) for name, value in batch.items()}
        ranks = {name: (value.dtype, [None] * value.ndim) for name, value in batch.items()}
        sizes = {name: (value.dtype, list(value.shape)) for name, value in batch.items()}
        attempt = leading if open_dims else ranks
        try:
            return convert(model, options=ExportOptions(inputs=attempt, outputs=self.candidates, training=True))
        except ConversionError as error:
            if any(finding.code != "needs-shape" for finding in error.errors):
                raise
            return convert(model, options=ExportOptions(inputs=sizes, outputs=self.candidates, training=True))
