"""Caffe2's ``Predictor``: a model in a workspace of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Net, Workspace, as_net
from caffe2_bridge.diagnostics import RunError
from caffe2_compat.workspace.named_workspaces import chosen_device


class PositionalPredictor:
    """A model in a workspace of its own, with inputs and outputs in the net's order.

    Blobs persist between runs, as in Caffe2: an input that is not given again keeps its value.

    Args:
        init_net: the init net, which is run once: a NetDef, its bytes, or an object with ``Proto()``.
        predict_net: the predict net, the same.
        device: where it runs; None for that of ``SetDevice``.

    Raises:
        NetFormatError: a net cannot be read.
        RunError, ConversionError: the init net cannot be run, or the device is not available.
    """

    def __init__(self, init_net: Net, predict_net: Net, device: str | None = None) -> None:
        self._net = as_net(predict_net)
        self._workspace = Workspace(chosen_device() if device is None else device)
        self._workspace.run_net_once(init_net)
        for name in self._net.external_input:
            self._workspace.create_blob(name)
        self._workspace.create_net(self._net)

    def run(self, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """Run the model.

        Args:
            inputs: arrays by name, or for the first of the net's external inputs, in order. A parameter is an external
                input too, whose value is replaced for good.

        Returns:
            The net's external outputs, in order.

        Raises:
            RunError: there are more inputs than the net has, a name is not a blob of the model, an input is not an
                array, or the run fails, as for an input of the wrong rank.
            ConversionError: the net cannot be converted for inputs of these types and ranks.
        """
        names = self._net.external_input
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(names):
                raise RunError(
                    f"net {self._net.name!r} has {len(names)} external inputs ({', '.join(names)}), "
                    f"but {len(inputs)} values are given"
                )
            inputs = dict(zip(names, inputs, strict=False))
        known = self._workspace.blobs()
        for name, value in inputs.items():
            if name not in known:
                raise RunError(f"net {self._net.name!r} has no blob {name!r}; its inputs are {', '.join(names)}")
            if not isinstance(value, np.ndarray) and not hasattr(value, "__dlpack__"):
                raise RunError(f"input {name!r} must be an array, not {type(value).__name__}")
        for name, value in inputs.items():
            self._workspace.feed(name, value)
        self._workspace.run_net(self._net.name)
        return [self._workspace.fetch(name) for name in self._net.external_output]
