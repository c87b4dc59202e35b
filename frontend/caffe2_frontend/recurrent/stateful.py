"""Streaming: the states of recurrent nets as inputs and outputs, so that a caller can carry them from call to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from caffe2_bridge.control import RecurrentNetwork
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_frontend.interop.types import TensorInfo

# Where an exported model says which output goes into which input of the next call: JSON, input name to output name.
STATES_KEY: Final = "caffe2.states"


class NoStatesError(BridgeError):
    """A net has no recurrent states that could be carried from call to call."""


@dataclass(frozen=True)
class CarriedState:
    """A state: the blob of its initial value, the blob of its last row, and its number of features if that is known."""

    initial: str
    last: str
    features: int | None

    @property
    def info(self) -> TensorInfo:
        """The initial value as an input: one row, [1, N, D]."""
        return TensorInfo(ir.DataType.FLOAT, (1, None, self.features))


def carried_states(model: Model) -> list[CarriedState]:
    """The states of a net's RecurrentNetworks whose initial value is an input or a parameter of the net.

    Raises NoStatesError where there are none.
    """
    net = NetView(model.predict_net)
    made = {name for op in net.ops for name in op.outputs}
    states = [
        state
        for op in net.ops
        if op.type == "RecurrentNetwork"
        for state in _states(op, model)
        if state.initial not in made
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
