"""ONNX's native shape inference, without the operators on which it is wrong or ends the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import onnx
import onnx_ir as ir
from google.protobuf.message import EncodeError

from caffe2_frontend.interop.bodies import proto_bodies
from caffe2_frontend.interop.domains import ML_DOMAIN, is_standard
from caffe2_frontend.interop.files.serialize import WrittenModel
from caffe2_frontend.interop.inference.propagation import HIDDEN, propagated
from caffe2_frontend.interop.inference.value_types import forget_maps, negative_dims

# Operators whose inference reads the type of an operand without asking whether it has one.
_UNSAFE: Final = frozenset({
    ("", "EyeLike"), ("", "RegexFullMatch"), (ML_DOMAIN, "DictVectorizer"), (ML_DOMAIN, "LabelEncoder"),
    (ML_DOMAIN, "TreeEnsemble"),
})  # fmt: skip
# Of its products, before the softmax, the last dim is inferred as 0 where that of the keys is not known.
_ATTENTION: Final = ("", "Attention")
_PRODUCTS: Final = 3  # the index of that output


def infer_shapes(model: onnx.ModelProto, *, strict_mode: bool = False, data_prop: bool = False) -> onnx.ModelProto:
    """Run ``onnx.shape_inference.infer_shapes`` on a model in which every name that is read is defined.

    The model is not changed. Types that hold maps are not in the result, and negative dims, which end the process, are
    unknown there. No data is propagated through very long vectors.

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
        model.opset_import.add(domain=HIDDEN, version=1)
    inferred = _inferred(model, strict_mode=strict_mode)
    if data_prop:
        inferred = propagated(model, inferred, partial(_inferred, strict_mode=strict_mode, data_prop=True))
    if unsafe:
        nodes = list(_nodes(inferred))
        for index in unsafe:
            nodes[index].CopyFrom(given[index])
        del inferred.opset_import[-1]
    forget_maps(inferred.graph.value_info)
    forget_maps(inferred.graph.output)
    return inferred


def infer_output_shapes(model: WrittenModel) -> dict[str, ir.Shape | None]:
    """Return the shapes of a graph's outputs as :func:`infer_shapes` infers them strictly, with propagated data.

    Raises onnx.shape_inference.InferenceError.
    """
    inferred = infer_shapes(onnx.ModelProto.FromString(model.data), strict_mode=True, data_prop=True)
    return {info.name: ir.serde.deserialize_type_proto_for_shape(info.type) for info in inferred.graph.output}


def _inferred(model: onnx.ModelProto, *, strict_mode: bool, data_prop: bool = False) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict_mode, data_prop=data_prop)  # noqa: TID251 - the one call
    except (ValueError, EncodeError) as error:  # larger, or nested deeper, than protobuf's messages may be
        raise onnx.shape_inference.InferenceError(str(error)) from None


def _types(graphs: Iterable[onnx.GraphProto], functions: Iterable[onnx.FunctionProto] = ()) -> Iterator[onnx.TypeProto]:
    """Yield the types that graphs and functions give their values."""
    for graph in graphs:
        for info in (*graph.input, *graph.value_info, *graph.output):
            yield info.type
    for function in functions:
        for info in function.value_info:
            yield info.type


def _graphs(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    yield model.graph
    for node in nodes:
        yield from proto_bodies(node)


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return ("" if is_standard(node) else node.domain), node.op_type


def _is_unsafe(node: onnx.NodeProto) -> bool:
    key = _key(node)
    return key in _UNSAFE or (key == _ATTENTION and any(node.output[_PRODUCTS:]))


def _typed(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> frozenset[str]:
    """Return the names that mean tensors of known types throughout a model; none with functions, which reuse names."""
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
        node.domain = HIDDEN


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield all nodes, those of functions and bodies too, in one order for all models of the same structure."""
    waiting = [*reversed(model.graph.node), *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                for graph in (attribute.g, *attribute.graphs):
                    waiting += graph.node
