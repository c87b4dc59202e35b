"""Find the recurrent states that become inputs and outputs of a stateful export, to be carried between calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from caffe2_bridge.control import RecurrentNetwork
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_frontend.interop.types import TensorInfo

# The metadata key of the mapping from each state input to the output that is its value in the next call, as JSON.
STATES_KEY: Final = "caffe2.states"


class NoStatesError(BridgeError):
    """A net does not have recurrent states that could be carried between calls."""


@dataclass(frozen=True)
class CarriedState:
    """A state: the blob of its initial value, that of its last row, and the number of features (None if unknown)."""

    initial: str
    last: str
    features: int | None

    @property
    def info(self) -> TensorInfo:
        """Type and shape of the initial value as an input: one row, [1, N, D]."""
        return TensorInfo(ir.DataType.FLOAT, (1, None, self.features))


def carried_states(model: Model) -> list[CarriedState]:
    """Return the states of a net's RecurrentNetworks whose initial value is an input or a parameter of the net.

    Raises NoStatesError if it does not have any.
    """
    net = NetView(model.predict_net)
    written = {name for op in net.ops for name in op.outputs}
    states = [
        state
        for op in net.ops
        if op.type == "RecurrentNetwork"
        for state in _states(op, model)
        if state.initial not in written
    ]
    if not states:
        raise NoStatesError("the net has no recurrent state whose initial value is an input or a parameter")
    return states


def _states(op: OpView, model: Model) -> list[CarriedState]:
    spec = RecurrentNetwork(op).spec
    last = {alias.source: alias.blob for alias in spec.aliases if alias.offset == -1}
    initial = ((state.blob, op.inputs[state.initial]) for state in spec.states)
    return [CarriedState(start, last[blob], _features(model, start)) for blob, start in initial if blob in last]


def _features(model: Model, name: str) -> int | None:
    parameter = model.init.parameters.get(name)
    return parameter.shape[-1] if parameter is not None and parameter.shape else None
