"""Tensors of a model's message, which can be renamed without changing the message, and know their type and shape.

onnx_ir writes the name of a value into the tensor message behind it. Initializers of bodies are renamed where names
are made unique: in the message that would leave an output or operand of the body without its initializer. It makes the
type and the shape of a tensor anew whenever they are asked for, which passes do for every weight.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_ir as ir

from caffe2_frontend.interop.bodies import all_graphs


class _OwnName(ir.serde.TensorProtoTensor):
    """A tensor message that is read, and a name of its own."""

    def __init__(self, proto: onnx.TensorProto) -> None:
        super().__init__(proto)
        self._own = proto.name
        self._dtype = ir.DataType(proto.data_type)
        self._shape = ir.Shape(proto.dims, frozen=True)

    @property
    def dtype(self) -> ir.DataType:  # type: ignore[override] # the protocol's attributes are writeable
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> ir.Shape:  # type: ignore[override]
        """The shape."""
        return self._shape

    @property
    def name(self) -> str:
        """The name."""
        return self._own

    @name.setter
    def name(self, value: str | None) -> None:
        self._own = value or ""

    @property
    def raw(self) -> onnx.TensorProto:
        """The message, or a copy of it where it has another name."""
        if self._proto.name == self._own:
            return self._proto
        renamed = onnx.TensorProto()
        renamed.CopyFrom(self._proto)
        renamed.name = self._own
        return renamed


def own_names(model: ir.Model) -> None:
    """Give the tensors of all graphs, functions and attributes names that are not those of their messages."""
    for graph in all_graphs(model.graph):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.serde.TensorProtoTensor):
                value.const_value = _OwnName(value.const_value.raw)
        _own_attributes(graph)
    for function in model.functions.values():
        _own_attributes(function)


def _own_attributes(nodes: Iterable[ir.Node]) -> None:
    for node in nodes:
        for name, attribute in node.attributes.data.items():
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                tensor = attribute.as_tensor()
                if isinstance(tensor, ir.serde.TensorProtoTensor):
                    node.attributes[name] = ir.AttrTensor(name, _OwnName(tensor.raw), attribute.doc_string)
