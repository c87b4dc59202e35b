"""ONNX's native shape inference, without the operators on which it ends the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx

from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.map_types import forget_maps

# Operators whose inference reads the type of an operand without asking whether it has one, and one each that is
# inferred alike.
_UNSAFE: Final = {"RegexFullMatch": "IsNaN"}


def infer_shapes(model: onnx.ModelProto, *, strict_mode: bool = False, data_prop: bool = False) -> onnx.ModelProto:
    """``onnx.shape_inference.infer_shapes`` of a model in which every name that is read is defined.

    The model is not changed. Types that hold maps are not in the result.

    Raises onnx.shape_inference.InferenceError, also for a model too large for protobuf.
    """
    unsafe = [(index, node.op_type) for index, node in enumerate(_nodes(model)) if _is_unsafe(node)]
    if unsafe:
        model = onnx.ModelProto.FromString(model.SerializeToString())
        for node in _nodes(model):
            if _is_unsafe(node):
                node.op_type = _UNSAFE[node.op_type]
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=strict_mode, data_prop=data_prop)  # noqa: TID251 - the one call
    except ValueError as error:  # larger, or nested deeper, than protobuf's messages may be
        raise onnx.shape_inference.InferenceError(str(error)) from None
    if unsafe:
        nodes = list(_nodes(inferred))
        for index, op_type in unsafe:
            nodes[index].op_type = op_type
    forget_maps(inferred.graph.value_info)
    forget_maps(inferred.graph.output)
    return inferred


def _is_unsafe(node: onnx.NodeProto) -> bool:
    return is_standard(node) and node.op_type in _UNSAFE


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of functions and bodies too, in an order that is the same for models of the same structure."""
    waiting = [*reversed(model.graph.node), *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node
