"""ONNX's native shape inference, without the operators on which it is wrong or ends the process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_bridge.bounds import MAX_FOLLOWED_ELEMENTS
from caffe2_frontend.interop.domains import STANDARD_DOMAINS, is_standard
from caffe2_frontend.interop.files.serialize import WrittenModel
from caffe2_frontend.interop.inference.value_types import forget_maps, negative_dims, shapes_of

# Operators whose inference reads the type of an operand without asking whether it has one.
_ML: Final = "ai.onnx.ml"
_UNSAFE: Final = frozenset({
    ("", "EyeLike"), ("", "RegexFullMatch"), (_ML, "DictVectorizer"), (_ML, "LabelEncoder"), (_ML, "TreeEnsemble"),
})  # fmt: skip
# Of its products, before the softmax, the last dim is inferred as 0 where that of the keys is not known.
_ATTENTION: Final = ("", "Attention")
_PRODUCTS: Final = 3  # the index of that output
_UNKNOWN: Final = "caffe2_bridge.not_inferred"  # a domain of which ONNX infers nothing
_FEW: Final = 64  # integers that may be a shape


def infer_shapes(model: onnx.ModelProto, *, strict_mode: bool = False, data_prop: bool = False) -> onnx.ModelProto:
    """``onnx.shape_inference.infer_shapes`` of a model in which every name that is read is defined.

    The model is not changed. Types that hold maps are not in the result, and negative dims, which end the process, are
    unknown there. Data is not propagated in a model with very long vectors.

    Raises onnx.shape_inference.InferenceError, also for a model too large for protobuf.
    """
    given = list(_nodes(model))
    unsafe = [index for index, node in enumerate(given) if _is_unsafe(node)]
    if unsafe or any(negative_dims(_types(_graphs(model, given), model.functions))):
        typed = _typed(model, given)
        model = onnx.ModelProto.FromString(model.SerializeToString())
        nodes = list(_nodes(model))
        for dim in negative_dims(_types(_graphs(model, nodes), model.functions)):
            dim.ClearField("dim_value")
        for index in unsafe:
            _make_safe(nodes[index], typed)
    if unsafe:
        model.opset_import.add(domain=_UNKNOWN, version=1)
    in_doubt = data_prop and _any_is_long(
        list(_graphs(model, given)), (each for node in given for each in node.attribute), _types([], model.functions)
    )
    inferred = _inferred(model, strict_mode=strict_mode, data_prop=data_prop and not in_doubt)
    if in_doubt and not _has_long_vectors(inferred):
        inferred = _inferred(model, strict_mode=strict_mode, data_prop=True)
    if unsafe:
        nodes = list(_nodes(inferred))
        for index in unsafe:
            nodes[index].CopyFrom(given[index])
        del inferred.opset_import[-1]
    forget_maps(inferred.graph.value_info)
    forget_maps(inferred.graph.output)
    return inferred


def infer_output_shapes(model: WrittenModel) -> dict[str, ir.Shape | None]:
    """The shapes of a graph's outputs as :func:`infer_shapes` infers them strictly, with propagated data.

    Raises onnx.shape_inference.InferenceError.
    """
    parts = model.parts
    keys = (("" if domain in STANDARD_DOMAINS else domain, op_type) for domain, op_type in parts.op_types)
    has_unsafe = not (_UNSAFE | {_ATTENTION}).isdisjoint(keys)
    if has_unsafe or _any_is_long(parts.frames, parts.attributes, parts.types):
        inferred = infer_shapes(onnx.ModelProto.FromString(model.data), strict_mode=True, data_prop=True)
    else:
        inferred = _inferred(model.data, strict_mode=True, data_prop=True)
        forget_maps(inferred.graph.output)
    return {info.name: ir.serde.deserialize_type_proto_for_shape(info.type) for info in inferred.graph.output}


def _inferred(model: onnx.ModelProto | bytes, *, strict_mode: bool, data_prop: bool) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict_mode, data_prop=data_prop)  # noqa: TID251 - the one call
    except ValueError as error:  # larger, or nested deeper, than protobuf's messages may be
        raise onnx.shape_inference.InferenceError(str(error)) from None


def _any_is_long(
    graphs: Sequence[onnx.GraphProto], attributes: Iterable[onnx.AttributeProto], types: Iterable[onnx.TypeProto]
) -> bool:
    """Whether shapes or integers in a model are large enough to make vectors for which data propagation takes long.

    ONNX's data propagation holds an object for each element of a vector, whatever the vector is used for.
    """
    return any(size > MAX_FOLLOWED_ELEMENTS for size in _sizes(graphs, attributes, types))


def _sizes(
    graphs: Sequence[onnx.GraphProto], attributes: Iterable[onnx.AttributeProto], types: Iterable[onnx.TypeProto]
) -> Iterator[int]:
    """The number of elements of each tensor that is described, or that integers may describe."""
    seen: set[bytes] = set()  # the shapes of most values are equal to a few
    for each in chain(types, _types(graphs)):
        for shape in shapes_of(each):
            key = shape.SerializeToString()
            if key not in seen:
                seen.add(key)
                yield _product(dim.dim_value for dim in shape.dim)
    for tensor in (tensor for graph in graphs for tensor in graph.initializer):
        yield from _sizes_of(tensor)
    for attribute in attributes:
        kind = attribute.type
        if kind == onnx.AttributeProto.INTS:
            yield _product(attribute.ints)
        elif kind == onnx.AttributeProto.INT:
            yield attribute.i
        elif attribute.HasField("t"):
            yield from _sizes_of(attribute.t)
        elif attribute.HasField("tp"):
            yield from (_product(dim.dim_value for dim in shape.dim) for shape in shapes_of(attribute.tp))


def _types(graphs: Iterable[onnx.GraphProto], functions: Iterable[onnx.FunctionProto] = ()) -> Iterator[onnx.TypeProto]:
    """The types that graphs and functions give their values."""
    for graph in graphs:
        for info in (*graph.input, *graph.value_info, *graph.output):
            yield info.type
    for function in functions:
        for info in function.value_info:
            yield info.type


def _sizes_of(tensor: onnx.TensorProto) -> Iterator[int]:
    count = _product(tensor.dims)
    yield count
    if tensor.data_type == onnx.TensorProto.INT64 and count <= _FEW:
        yield _product(np.frombuffer(tensor.raw_data, "<i8").tolist() if tensor.raw_data else tensor.int64_data)


def _product(dims: Iterable[int]) -> int:
    return math.prod(dim for dim in dims if dim > 0)


def _has_long_vectors(inferred: onnx.ModelProto) -> bool:
    for graph in _graphs(inferred, list(_nodes(inferred))):
        for info in (*graph.input, *graph.value_info, *graph.output):
            for shape in shapes_of(info.type):
                if len(shape.dim) == 1 and shape.dim[0].dim_value > MAX_FOLLOWED_ELEMENTS:
                    return True
    return False


def _graphs(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    yield model.graph
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return ("" if is_standard(node) else node.domain), node.op_type


def _is_unsafe(node: onnx.NodeProto) -> bool:
    key = _key(node)
    return key in _UNSAFE or (key == _ATTENTION and any(node.output[_PRODUCTS:]))


def _typed(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> frozenset[str]:
    """The names that mean tensors of known types throughout a model; none if it has functions, which reuse names."""
    if model.functions:
        return frozenset()
    graph = model.graph
    infos = (*graph.input, *graph.value_info)
    names = {info.name for info in infos if info.type.tensor_type.elem_type and info.type.tensor_type.HasField("shape")}
    names.update(tensor.name for tensor in graph.initializer)
    for body in list(_graphs(model, nodes))[1:]:
        names.difference_update(info.name for info in body.input)
        names.difference_update(name for node in body.node for name in node.output)
    return frozenset(names)


def _make_safe(node: onnx.NodeProto, typed: frozenset[str]) -> None:
    """Turn an unsafe node into one that is inferred alike, or not at all; most are safe if all operands have types."""
    if node.op_type != _ATTENTION[1] and typed.issuperset(node.input):
        return
    if node.op_type == "RegexFullMatch":
        node.op_type = "IsNaN"
    elif node.op_type == "EyeLike":
        dtypes = [attribute.i for attribute in node.attribute if attribute.name == "dtype"]
        if dtypes:  # else the type is that of the operand, which is asked for
            del node.attribute[:]
            node.op_type = "Cast"
            node.attribute.add(name="to", type=onnx.AttributeProto.INT, i=dtypes[0])
    else:
        node.domain = _UNKNOWN


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of functions and bodies too, in an order that is the same for models of the same structure."""
    waiting = [*reversed(model.graph.node), *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                for graph in (attribute.g, *attribute.graphs):
                    waiting += graph.node
