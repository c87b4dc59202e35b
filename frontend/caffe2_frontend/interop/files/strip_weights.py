"""Models without their weights, so that a model of any size can be passed to ONNX's C++ code as a protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_bridge.wire import Span, split
from caffe2_bridge.wire.write import encode_len
from caffe2_frontend.interop.bodies import all_graphs
from caffe2_frontend.interop.files.serialize import to_proto

# Initializers up to this size stay: shapes, axes and the like, whose contents inference and version converters read.
SMALL_TENSOR_BYTES: Final = 1024


def split_weights(model: Span) -> tuple[bytes, list[Span]]:
    """Return the bytes of a serialized model without initializers, and those of each initializer, not copied.

    Raises WireError where the model is malformed.
    """
    rest, graphs = split(model, {onnx.ModelProto.GRAPH_FIELD_NUMBER})
    parts, weights = [rest], []
    for graph in graphs:
        light, tensors = split(model.within(graph.start, graph.end), {onnx.GraphProto.INITIALIZER_FIELD_NUMBER})
        parts.append(encode_len(onnx.ModelProto.GRAPH_FIELD_NUMBER, light))
        weights += [model.within(tensor.start, tensor.end) for tensor in tensors]
    return b"".join(parts), weights


def without_weights(model: ir.Model, *, metadata: bool = True) -> onnx.ModelProto:
    """Return the model as a protobuf in which large initializers are replaced by graph inputs of their type and shape.

    Without ``metadata`` its nodes have none.
    """
    with weights_as_inputs(model):
        return to_proto(model, metadata=metadata)


@contextmanager
def weights_as_inputs(model: ir.Model) -> Iterator[None]:
    """Replace large initializers by graph inputs of their type and shape, until the end of the block."""
    graph = model.graph
    large = []
    for value in graph.initializers.data.values():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > SMALL_TENSOR_BYTES:
            large.append(value)
        elif isinstance(tensor, ir.ExternalTensor):
            # As a protobuf it would lose its folder, and be read from the working directory.
            value.const_value = in_memory(tensor)
    for value in large:
        graph.initializers.pop(str(value.name))
        graph.inputs.append(value)
    try:
        yield
    finally:
        for value in large:
            graph.inputs.remove(value)
            graph.register_initializer(value)


def in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    """Return a tensor of the same values that needs no file."""
    return ir.Tensor(np.array(tensor.numpy()), dtype=tensor.dtype, shape=ir.Shape(tensor.shape), name=tensor.name)


def drop_generated_dim_names(shape: ir.Shape | None) -> ir.Shape | None:
    """Return the shape without the names (``unk__0`` ...) that ONNX's shape inference generates for unknown dims."""
    if shape is None:
        return None
    return ir.Shape(
        [None if isinstance(dim, ir.SymbolicDim) and (dim.value or "").startswith("unk__") else dim for dim in shape]
    )


def with_weights(proto: onnx.ModelProto, source: ir.Model) -> ir.Model:
    """Restore the weights of ``source`` by name: the inverse of :func:`without_weights`.

    The protobuf loses the types of the graph's values, which are read faster here than by onnx_ir.
    """
    infos = {info.name: info.type for info in proto.graph.value_info if not (info.doc_string or info.metadata_props)}
    described = [info for info in proto.graph.value_info if info.name not in infos]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(described)
    model = ir.from_proto(proto)
    for value in list(model.graph.inputs):
        weight = source.graph.initializers.get(str(value.name))
        if weight is not None and value.const_value is None:
            model.graph.inputs.remove(value)
            value.const_value = weight.const_value
            model.graph.register_initializer(value)
    types = TypeReader()
    for graph in all_graphs(model.graph):
        for value in (*graph.inputs, *(value for node in graph for value in node.outputs)):
            kind = infos.get(value.name or "") if graph is model.graph else None
            if kind is None:
                value.shape = drop_generated_dim_names(value.shape)
            else:
                value.type, value.shape = types.read(kind)
    return model


class TypeReader:
    """Reads the types of values, of which most are equal to a few. Equal shapes are shared."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[ir.TypeProtocol | None, ir.Shape | None]] = {}

    def read(self, kind: onnx.TypeProto) -> tuple[ir.TypeProtocol | None, ir.Shape | None]:
        """Return a type, and its shape without generated names of dims."""
        key = kind.SerializeToString()
        known = self._known.get(key)
        if known is None:
            made = ir.serde.deserialize_type_proto_for_type(kind) if kind.WhichOneof("value") else None
            shape = None if made is None else ir.serde.deserialize_type_proto_for_shape(kind)
            known = self._known[key] = (made, drop_generated_dim_names(shape))
        return known
