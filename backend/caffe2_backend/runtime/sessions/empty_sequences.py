"""Operands without elements of onnxruntime's LSTM and GRU, which end the process instead of failing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx

from caffe2_bridge.diagnostics import RunError
from caffe2_frontend.interop.inference.shape_inference import infer_shapes

# The axes of X [T, N, I] along which there must be elements. A batch is last but one, or first with layout=1. A GRU
# with an operand for the lengths of sequences ends before it reads X if all are 0, as they are without steps.
_AXES: Final[Mapping[str, tuple[int, ...]]] = {"LSTM": (1,), "GRU": (0, 1, 2)}
_LENGTHS: Final = 4  # the operand sequence_lens
_LARGEST: Final = 64  # elements of an initializer that the inference of shapes may need


@dataclass(frozen=True, slots=True)
class Needed:
    """A dim of an input of a model that must not be 0, and the node that it is for."""

    input: str
    axis: int
    node: str


def needed_dims(model: bytes | str) -> tuple[Needed, ...]:
    """The dims that must not be 0 for the process to survive a run of a serialized model, or one in a file."""
    data = Path(model).read_bytes() if isinstance(model, str) else model
    if not any(name.encode() in data for name in _AXES):
        return ()
    found = onnx.ModelProto.FromString(data)
    nodes = [node for node in found.graph.node if node.op_type in _AXES and not node.domain and node.input]
    return tuple(dict.fromkeys(_needed(found, nodes))) if nodes else ()


def require_sequences(needed: Sequence[Needed], feed: Mapping[str, Any]) -> None:
    """Raise RunError where a dim that is needed is 0."""
    for dim in needed:
        value = feed.get(dim.input)
        if value is not None and len(value.shape) > dim.axis and value.shape[dim.axis] == 0:
            raise RunError(
                f"{dim.node} has no elements, because dim {dim.axis} of {dim.input!r} is 0; onnxruntime would end the "
                "process: run the model on one sequence at least"
            )


def _needed(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> Iterator[Needed]:
    """The dims of inputs that the operands of some nodes have, by the names of dims."""
    places = _name_dims(model)
    shapes = _shapes(model)
    for node in nodes:
        dims = shapes.get(node.input[0])
        if dims is None:
            continue
        layout = next((attribute.i for attribute in node.attribute if attribute.name == "layout"), 0)
        has_lengths = len(node.input) > _LENGTHS and bool(node.input[_LENGTHS])
        for axis in _AXES[node.op_type]:
            if axis == 0 and has_lengths:
                continue
            place = 1 - axis if layout and axis < 2 else axis  # T and N are exchanged
            if place < len(dims):
                for name, at in places.get(dims[place].dim_param, ()):
                    yield Needed(name, at, f"the input of {node.op_type} {node.name!r}")


def _name_dims(model: onnx.ModelProto) -> dict[str, list[tuple[str, int]]]:
    """Give each dim of the inputs a name if it has neither name nor size; the inputs and axes by name."""
    places: dict[str, list[tuple[str, int]]] = {}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.dim_param and (not dim.HasField("dim_value") or dim.dim_value < 0):
                dim.dim_param = f"{value.name}/{axis}"
            if dim.dim_param:
                places.setdefault(dim.dim_param, []).append((value.name, axis))
    return places


def _shapes(model: onnx.ModelProto) -> dict[str, Sequence[Any]]:
    """The dims of the values of a model, whose weights are declared instead of stored."""
    graph = model.graph
    del graph.value_info[:]  # whose names of dims may be others
    for tensor in [tensor for tensor in graph.initializer if sum(tensor.dims) > _LARGEST]:
        declared = graph.input.add(name=tensor.name).type.tensor_type
        declared.elem_type = tensor.data_type
        for dim in tensor.dims:
            declared.shape.dim.add(dim_value=dim)
        graph.initializer.remove(tensor)
    try:
        inferred = infer_shapes(model)
    except onnx.shape_inference.InferenceError:
        inferred = model
    values = (*inferred.graph.input, *inferred.graph.value_info)
    return {
        value.name: value.type.tensor_type.shape.dim for value in values if value.type.tensor_type.HasField("shape")
    }
