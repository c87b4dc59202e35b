"""Data propagation of ONNX's shape inference that follows no long vectors.

ONNX propagates the contents of shapes through operators that compute with them, such as Mul and Concat, the *followers*
below. Of an operand that is a vector of known length they hold an object for each element, whatever it is used for: a
few bytes of a model may ask for all memory. Lengths may themselves be known only from contents, as that of
``ConstantOfShape(Mul(n, n))``. So types are inferred without contents first, and with them in rounds: a follower is
hidden from the inference until the round before has shown that its vectors are short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import onnx

from caffe2_bridge.bounds import MAX_FOLLOWED_ELEMENTS
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.inference.value_types import shapes_of
from caffe2_frontend.interop.operators import BODIES

HIDDEN: Final = "caffe2_bridge.not_inferred"  # a domain of which ONNX infers nothing
# Each round finds the lengths of vectors that those of the round before determine; few models need three.
_ROUNDS: Final = 16
_INTEGERS: Final = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
_GENERATED: Final = "unk__"  # how the names of dims that ONNX makes up begin

Infer = Callable[[onnx.ModelProto], onnx.ModelProto]


def propagated(model: onnx.ModelProto, inferred: onnx.ModelProto, infer: Infer) -> onnx.ModelProto:
    """Return the model with types inferred with data propagation.

    Args:
        model: the model, which is not changed.
        inferred: the same with types inferred without data propagation.
        infer: infers types with data propagation.
    """
    if not _has_contents(model):
        return inferred
    hidden = _doubtful(inferred)
    for _ in range(_ROUNDS):
        if not hidden:
            return infer(model)
        found = infer(_hiding(model, inferred, hidden))
        _reveal(found, model, hidden)
        left = hidden & _doubtful(found)
        if left == hidden:
            break
        hidden = left
    return found


def _has_contents(model: onnx.ModelProto) -> bool:
    """Whether a model may have contents to propagate: dims, integers that a follower reads, or what bodies have."""
    if model.functions:
        return True
    begin, followers = {"Shape", "Size", *BODIES, *_inferred_as_functions()}, _followers()
    integers = {tensor.name for tensor in model.graph.initializer if tensor.data_type in _INTEGERS}
    for node in model.graph.node:
        if node.op_type == "Constant":
            integers.update(node.output)
        elif node.op_type in begin or (node.op_type in followers and not integers.isdisjoint(node.input)):
            return True
    return False


@dataclass(eq=False)
class _GraphInfos:
    """A graph or a function, with what is known of its values.

    Attributes:
        proto: what holds the nodes.
        parent: the scope around a body.
    """

    proto: onnx.GraphProto | onnx.FunctionProto
    parent: _GraphInfos | None = None

    @cached_property
    def infos(self) -> dict[str, onnx.ValueInfoProto]:
        """The descriptions of values."""
        ends = (*self.proto.input, *self.proto.output) if isinstance(self.proto, onnx.GraphProto) else ()
        return {info.name: info for info in (*self.proto.value_info, *ends)}

    @cached_property
    def lengths(self) -> dict[str, int | None]:
        """Of each described value the length if it is a vector, 0 if it is none, None where that is not known."""
        found = {name: _length(info.type) for name, info in self.infos.items()}
        tensors = self.proto.initializer if isinstance(self.proto, onnx.GraphProto) else ()
        return found | {tensor.name: tensor.dims[0] if len(tensor.dims) == 1 else 0 for tensor in tensors}

    @cached_property
    def followed(self) -> frozenset[str]:
        """The results that are not longer than what makes them reads, if only their lengths are not known."""
        makers = (
            n for n in self.proto.node if n.op_type in _propagating() and n.op_type != "Concat" and is_standard(n)
        )
        return frozenset(name for node in makers for name in node.output)

    def length(self, name: str) -> int | None:
        """Return the length of a value, by its name here."""
        scope: _GraphInfos | None = self
        while scope is not None:
            if name in scope.lengths:
                return scope.lengths[name]
            scope = scope.parent
        return None


def _length(kind: onnx.TypeProto) -> int | None:
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if len(dims) != 1:
        return 0
    return dims[0].dim_value if dims[0].HasField("dim_value") else None


@lru_cache(maxsize=1)
def _propagating() -> frozenset[str]:
    """Return ONNX's operators that propagate contents."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return frozenset(schema.name for schema in schemas if not schema.domain and schema.has_data_propagation_function)


@lru_cache(maxsize=1)
def _followers() -> frozenset[str]:
    """Return ONNX's operators that propagate operands' contents, or are inferred as functions of such operators."""
    return (_propagating() - {"Shape"}) | _inferred_as_functions()  # Shape reads dims, and not contents


@lru_cache(maxsize=1)
def _inferred_as_functions() -> frozenset[str]:
    """Return ONNX's operators that are inferred as functions of others."""
    schemas: Sequence[Any] = onnx.defs.get_all_schemas_with_history()  # onnx's own annotations lack what is read here
    return frozenset(
        schema.name
        for schema in schemas
        if not schema.domain
        and not schema.has_type_and_shape_inference_function
        and (schema.has_function or schema.has_context_dependent_function)
    )


def _nodes(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, _GraphInfos]]:
    """Yield all nodes with their scopes, in an order that is the same for models of the same structure."""
    waiting = [_GraphInfos(model.graph), *map(_GraphInfos, model.functions)]
    while waiting:
        scope = waiting.pop()
        for node in scope.proto.node:
            yield node, scope
            for attribute in node.attribute:
                if attribute.HasField("g") or attribute.graphs:
                    waiting += (_GraphInfos(graph, scope) for graph in (attribute.g, *attribute.graphs))


def _doubtful(model: onnx.ModelProto) -> frozenset[int]:
    """Return the followers, by place in the order of nodes, that may read or make a long vector, as far as is known."""
    followers = _followers()
    return frozenset(
        index
        for index, (node, scope) in enumerate(_nodes(model))
        if node.op_type in followers and is_standard(node) and _is_doubtful(node, scope)
    )


def _is_doubtful(node: onnx.NodeProto, scope: _GraphInfos) -> bool:
    total = 0
    for name in filter(None, node.input):
        length = scope.length(name)
        if length is None and (node.op_type == "Concat" or name not in scope.followed):
            return True
        total = total + (length or 0) if node.op_type == "Concat" else max(total, length or 0)
    return total > MAX_FOLLOWED_ELEMENTS or any((scope.length(n) or 0) > MAX_FOLLOWED_ELEMENTS for n in node.output)


def _hiding(model: onnx.ModelProto, inferred: onnx.ModelProto, hidden: frozenset[int]) -> onnx.ModelProto:
    """Return a copy in which nodes are not inferred. Results of these and of functions have types of ``inferred``."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    copy.opset_import.add(domain=HIDDEN, version=1)
    for function in copy.functions:
        function.opset_import.add(domain=HIDDEN, version=1)
    calls = {(function.domain, function.name) for function in model.functions}
    for index, ((node, scope), (_, known)) in enumerate(zip(_nodes(copy), _nodes(inferred), strict=True)):
        if index in hidden or (node.domain, node.op_type) in calls:
            _describe(node, scope, known)
        if index in hidden:
            node.domain = HIDDEN
    return copy


def _describe(node: onnx.NodeProto, scope: _GraphInfos, known: _GraphInfos) -> None:
    """Give the results of a node the types that are known, less the names of dims that ONNX has made up."""
    for name in node.output:
        if name in known.infos:
            info = scope.infos.get(name) or scope.proto.value_info.add(name=name)
            info.type.CopyFrom(known.infos[name].type)
            for dim in (dim for shape in shapes_of(info.type) for dim in shape.dim):
                if dim.dim_param.startswith(_GENERATED):
                    dim.ClearField("dim_param")


def _reveal(found: onnx.ModelProto, model: onnx.ModelProto, hidden: frozenset[int]) -> None:
    """Undo in a model with inferred types that nodes are hidden."""
    for index, ((node, _), (given, _)) in enumerate(zip(_nodes(found), _nodes(model), strict=True)):
        if index in hidden:
            node.domain = given.domain
            if not given.HasField("domain"):
                node.ClearField("domain")
    del found.opset_import[-1]
    for function in found.functions:
        del function.opset_import[-1]
