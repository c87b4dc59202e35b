"""Defaults and metadata of the blobs that a training net updates."""

from __future__ import annotations

import json
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.metadata.training import LOSSES_KEY, UPDATES_KEY
from caffe2_frontend.state import Export


class RecordUpdates(InPlacePass[Export]):
    """Give inputs that a training net updates their initial values, and record which output feeds which input.

    An initializer that has the name of an input is its default in ONNX: a run may leave the input out. It is not
    constant, so that this pass comes after those that fold constants.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"updates"})

    def __call__(self, state: Export) -> None:
        """Register the initializers and write the metadata."""
        if state.model is None or not state.updates:
            return
        names = [value.name for value in state.graph.outputs]
        feeds = {name: names[index] for name, index in state.updates.items()}
        state.model.metadata_props[UPDATES_KEY] = json.dumps(feeds)
        state.model.metadata_props[LOSSES_KEY] = json.dumps([names[index] for index in state.losses])
        for value in state.graph.inputs:
            parameter = state.initial.get(str(value.name))
            if parameter is not None:
                value.const_value = _tensor(parameter)
                state.graph.register_initializer(value)


def _tensor(parameter: Parameter) -> ir.TensorProtocol:
    """The value, read from its file when the model is written."""
    dtype = ir.DataType.from_numpy(parameter.dtype)
    return ir.LazyTensor(lambda: ir.Tensor(parameter.load()), dtype, ir.Shape(parameter.shape), name=parameter.name)
