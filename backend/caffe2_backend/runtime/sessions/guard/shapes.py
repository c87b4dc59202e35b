"""The dims of the values of a model: numbers, and the inputs that have the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import onnx

from caffe2_backend.admission.scopes import GraphScope, scopes_of
from caffe2_backend.runtime.sessions.guard.outline import is_outlined
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.interop.native_limits import Dims

Place = tuple[str, int]  # an input and an axis


class Shapes:
    """What ONNX infers from the types of a model's inputs and its weights, which onnxruntime checks.

    What else is declared, onnxruntime does not check, and it does not count.

    Attributes:
        inputs: the names of the inputs.
        places: by the name of a dim, the inputs and axes that have it.
    """

    def __init__(self, outline: onnx.ModelProto) -> None:
        model = onnx.ModelProto.FromString(outline.SerializeToString())
        self.inputs = frozenset(info.name for info in model.graph.input)
        self.places = _name_dims(model)
        for scope in scopes_of(model):
            _forget(scope)
        _declare_weights(model.graph)
        with suppress(onnx.shape_inference.InferenceError):
            model = infer_shapes(model)
        self._scopes = scopes_of(model)
        self._known: dict[int, Mapping[str, Dims]] = {}

    def dims(self, scope: int, name: str) -> Dims | None:
        """Return the dims of a value that a scope of the model sees; None where its rank is unknown."""
        at: GraphScope | None = self._scopes[scope]
        while at is not None:
            if id(at) not in self._known:
                self._known[id(at)] = _dims_in(at)
            if name in self._known[id(at)]:
                return self._known[id(at)][name]
            at = at.parent
        return None


def _name_dims(model: onnx.ModelProto) -> dict[str, list[Place]]:
    """Give each dim of the inputs a name if it has neither name nor size; the inputs and axes by name."""
    places: dict[str, list[Place]] = {}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.dim_param and (not dim.HasField("dim_value") or dim.dim_value < 0):
                dim.dim_param = f"{value.name}/{axis}"
            if dim.dim_param:
                places.setdefault(dim.dim_param, []).append((value.name, axis))
    return places


def _forget(scope: GraphScope) -> None:
    """Drop the shapes that are declared, but for those of the model's inputs."""
    del scope.proto.value_info[:]
    if isinstance(scope.proto, onnx.GraphProto):
        infos: Iterable[onnx.ValueInfoProto] = scope.proto.output
        if scope.parent is not None:
            infos = [*scope.proto.input, *scope.proto.output]
        for info in infos:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")


def _declare_weights(graph: onnx.GraphProto) -> None:
    """Make inputs of the weights that are not stored."""
    weights = [tensor for tensor in graph.initializer if is_outlined(tensor)]
    given = {info.name for info in graph.input}
    for tensor in weights:
        if tensor.name not in given:
            declared = graph.input.add(name=tensor.name).type.tensor_type
            declared.elem_type = tensor.data_type
            declared.shape.SetInParent()
            for dim in tensor.dims:
                declared.shape.dim.add(dim_value=dim)
        graph.initializer.remove(tensor)


def _dims_in(scope: GraphScope) -> Mapping[str, Dims]:
    """Return the dims of the values that a scope itself defines."""
    proto = scope.proto
    infos: list[onnx.ValueInfoProto] = list(proto.value_info)
    found: dict[str, Dims] = {}
    if isinstance(proto, onnx.GraphProto):
        infos += [*proto.input, *proto.output]
        found = {tensor.name: list(tensor.dims) for tensor in proto.initializer}
    return found | {
        info.name: _dims(info.type.tensor_type.shape.dim) for info in infos if info.type.tensor_type.HasField("shape")
    }


def _dims(dims: Sequence[onnx.TensorShapeProto.Dimension]) -> Dims:
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]
