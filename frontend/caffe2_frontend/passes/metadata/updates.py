"""Defaults of inputs, and metadata of the blobs that a training net updates."""

from __future__ import annotations

import json
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.constants import string_tensor
from caffe2_frontend.interop.metadata.training import LOSSES_KEY, UPDATES_KEY
from caffe2_frontend.state import Export


class RecordUpdates(InPlacePass[Export]):
    """Give inputs their defaults, and record which output feeds which input of the next step of a training net.

    An initializer that has the name of an input is its default in ONNX: a run may leave the input out. It is not
    constant, so that this pass comes after those that fold constants.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"updates"})

    def __call__(self, state: Export) -> None:
        """Register the initializers and write the metadata."""
        if state.model is None:
            return
        if state.updates:
            names = [value.name for value in state.graph.outputs]
            feeds = {name: names[index] for name, index in state.updates.items()}
            state.model.metadata_props[UPDATES_KEY] = json.dumps(feeds)
            state.model.metadata_props[LOSSES_KEY] = json.dumps([names[index] for index in state.losses])
        for value in state.graph.inputs if state.initial else ():
            parameter = state.initial.get(str(value.name))
            if parameter is not None:
                value.const_value = _tensor(parameter, value.dtype)
                state.graph.register_initializer(value)


def _tensor(parameter: Parameter, dtype: ir.DataType | None) -> ir.TensorProtocol:
    """Return the value of an input's type, read from its file when the model is written; strings are read at once."""
    if dtype is None or dtype is ir.DataType.STRING:
        return string_tensor(parameter.load())
    kind = dtype.numpy()
    return ir.LazyTensor(
        lambda: ir.Tensor(parameter.load().astype(kind, copy=False)),
        dtype,
        ir.Shape(parameter.shape),
        name=parameter.name,
    )
