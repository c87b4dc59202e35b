"""ONNX models, sketched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import onnx

from caffe2_backend.admission import load_graph
from caffe2_backend.picture.edges import DrawnNet, DrawnOperator, Flow
from caffe2_backend.picture.sketch import Sketch, extent, shortened
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.storage import AnyPath
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.interop.metadata.origin import location_of

_SHOWN: Final = (
    "kernel_shape",
    "strides",
    "pads",
    "dilations",
    "group",
    "axis",
    "axes",
    "perm",
    "to",
    "hidden_size",
    "mode",
)
_MAX_ATTRIBUTES: Final = 4
_MAX_ITEMS: Final = 6
_SHAPE_BYTES: Final = 1024  # larger tensors say nothing of shapes, and need not go through the inference


def read_onnx(path: AnyPath) -> onnx.ModelProto:
    """Return an ONNX model without its external data.

    Raises NetFormatError where the file holds none, ConversionError where the model is malformed.
    """
    try:
        return load_graph(path)
    except OSError as error:
        raise NetFormatError(f"cannot be read: {error.strerror or error}", str(path)) from None


def sketch_onnx(path: AnyPath) -> Sketch:
    """Return a picture of the model in a file; its weights and constants are lines of the nodes that read them."""
    model = read_onnx(path)
    graph = model.graph
    constants = dict(_constants(graph))
    title = f"{graph.name or 'graph'}: {len(graph.node)} nodes, {len(graph.initializer)} weights"
    inputs = [value.name for value in graph.input if value.name not in constants]
    extents = _extents(model)
    flow = Flow(title, constants, extents)
    flow.draw(
        DrawnNet(graph.name, tuple(_operators(graph.node, extents)), inputs, [value.name for value in graph.output])
    )
    return flow.sketch


def every_graph(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and the bodies in it, at any depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from every_graph(attribute.g)


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Yield the weights and constants of a graph and its bodies, which share one set of names, with their extents."""
    for part in every_graph(graph):
        for tensor in part.initializer:
            yield tensor.name, _size(tensor)
        for node in part.node:
            if _is_constant(node):
                yield node.output[0], _constant(node)


def _is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and node.domain == "" and len(node.output) == 1


def _constant(node: onnx.NodeProto) -> str:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            return _size(attribute.t)
        return _text(attribute)
    return ""


def _size(tensor: onnx.TensorProto) -> str:
    kind = onnx.TensorProto.DataType.Name(tensor.data_type).lower() if tensor.data_type else ""
    return extent(tuple(tensor.dims)) + ("" if kind == "float" else f" {kind}")


def _extents(model: onnx.ModelProto) -> dict[str, str]:
    """Return the extents of values by name: those that the model states, and those that ONNX's inference finds.

    The model's weights are dropped: what they hold says nothing of shapes, unless they are small.
    """
    graph = model.graph
    small = []
    known = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.ByteSize() <= _SHAPE_BYTES:
            small.append(tensor)
        elif tensor.name not in known:
            value = graph.input.add(name=tensor.name)
            value.type.tensor_type.elem_type = tensor.data_type
            for dim in tensor.dims:
                value.type.tensor_type.shape.dim.add(dim_value=dim)
    del graph.initializer[:]
    graph.initializer.extend(small)
    try:
        inferred = infer_shapes(model)
    except onnx.shape_inference.InferenceError:  # a picture needs no shapes: a checker reports the error
        inferred = model
    return {
        value.name: _extent(value.type.tensor_type)
        for part in every_graph(inferred.graph)
        for value in (*part.input, *part.value_info, *part.output)
        if value.type.HasField("tensor_type")
    }


def _extent(tensor: onnx.TypeProto.Tensor) -> str:
    if not tensor.HasField("shape"):
        return ""
    return extent(tuple(_dim(dim) for dim in tensor.shape.dim))


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param


def _operators(nodes: Sequence[onnx.NodeProto], extents: Mapping[str, str]) -> Iterator[DrawnOperator]:
    for node in nodes:
        if not _is_constant(node):
            yield DrawnOperator(
                node.op_type,
                node.input,
                node.output,
                [extents.get(name, "") for name in node.output],
                _attributes(node),
                node.name,
                bodies=tuple(_bodies(node, extents)),
                location=location_of(node),
            )


def _attributes(node: onnx.NodeProto) -> tuple[str, ...]:
    by_name = {attribute.name: attribute for attribute in node.attribute}
    texts = [f"{name} {text}" for name in _SHOWN if name in by_name and (text := _text(by_name[name]))]
    return (", ".join(texts[:_MAX_ATTRIBUTES]),) if texts else ()


def _text(attribute: onnx.AttributeProto) -> str:
    if attribute.type == onnx.AttributeProto.INT:
        return str(attribute.i)
    if attribute.type == onnx.AttributeProto.FLOAT:
        return f"{attribute.f:g}"
    if attribute.type == onnx.AttributeProto.STRING:
        return shortened(attribute.s.decode("utf-8", "replace"), 12)
    return str(list(attribute.ints)) if 0 < len(attribute.ints) <= _MAX_ITEMS else ""


def _bodies(node: onnx.NodeProto, extents: Mapping[str, str]) -> Iterator[DrawnNet]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            inputs = [value.name for value in graph.input]
            yield DrawnNet(
                attribute.name, tuple(_operators(graph.node, extents)), inputs, [value.name for value in graph.output]
            )
