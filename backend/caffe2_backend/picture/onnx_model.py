"""ONNX models, sketched."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_backend.admission import load_graph
from caffe2_backend.picture.edges import DrawnNet, DrawnOperator, Flow
from caffe2_backend.picture.shape_labels import dtype_text
from caffe2_backend.picture.sketch import LONGEST_TEXT, MOST_ITEMS, Sketch, Type, extent, listed, shortened
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
_DTYPES: Final = frozenset(kind.value for kind in ir.DataType if kind.value)
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
    return sketch_graph(read_onnx(path))


def sketch_graph(model: onnx.ModelProto, weights: Collection[str] = ()) -> Sketch:
    """Return a picture of a model, which is changed; inputs that are ``weights`` are drawn as its initializers."""
    graph = model.graph
    constants = dict(_constants(graph))
    for value in graph.input:
        if value.name in weights:
            constants[value.name] = " ".join(filter(None, _type(value.type.tensor_type))).removesuffix(" float32")
    count = sum(1 for value in graph.input if value.name in weights) + len(graph.initializer)
    title = f"{graph.name or 'graph'}: {len(graph.node)} nodes, {count} weights"
    inputs = [value.name for value in graph.input if value.name not in constants]
    types = _types(model)
    flow = Flow(title, constants, types)
    flow.draw(
        DrawnNet(graph.name, tuple(_operators(graph.node, types)), inputs, [value.name for value in graph.output])
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


def _types(model: onnx.ModelProto) -> dict[str, Type]:
    """Return the types of values by name: those that the model states, and those that ONNX's inference finds.

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
        value.name: _type(value.type.tensor_type)
        for part in every_graph(inferred.graph)
        for value in (*part.input, *part.value_info, *part.output)
        if value.type.HasField("tensor_type")
    }


def _type(tensor: onnx.TypeProto.Tensor) -> Type:
    dtype = dtype_text(ir.DataType(tensor.elem_type)) if tensor.elem_type in _DTYPES else ""
    if not tensor.HasField("shape"):
        return Type("", dtype)
    return Type(extent(tuple(_dim(dim) for dim in tensor.shape.dim)), dtype)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param


def _operators(nodes: Sequence[onnx.NodeProto], types: Mapping[str, Type]) -> Iterator[DrawnOperator]:
    for node in nodes:
        if not _is_constant(node):
            yield DrawnOperator(
                node.op_type,
                node.input,
                node.output,
                [types.get(name, Type()) for name in node.output],
                _attributes(node),
                node.name,
                bodies=tuple(_bodies(node, types)),
                location=location_of(node),
                arguments=tuple(
                    (each.name, _whole_text(each)) for each in node.attribute if each.type != onnx.AttributeProto.GRAPH
                ),
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


def _whole_text(attribute: onnx.AttributeProto) -> str:
    """Return the value of any attribute but a graph."""
    kinds = onnx.AttributeProto
    if attribute.type == kinds.TENSOR:
        return _size(attribute.t)
    if attribute.type == kinds.STRING:
        return shortened(attribute.s[:LONGEST_TEXT].decode("utf-8", "replace"), LONGEST_TEXT)
    if attribute.type == kinds.STRINGS:
        texts = [shortened(text.decode("utf-8", "replace")) for text in attribute.strings[:MOST_ITEMS]]
        return listed(texts, len(attribute.strings))
    if attribute.type == kinds.FLOATS:
        return listed([f"{number:g}" for number in attribute.floats[:MOST_ITEMS]], len(attribute.floats))
    return _text(attribute) or listed(map(str, attribute.ints[:MOST_ITEMS]), len(attribute.ints))


def _bodies(node: onnx.NodeProto, types: Mapping[str, Type]) -> Iterator[DrawnNet]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            inputs = [value.name for value in graph.input]
            yield DrawnNet(
                attribute.name, tuple(_operators(graph.node, types)), inputs, [value.name for value in graph.output]
            )
