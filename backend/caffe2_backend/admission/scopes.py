"""Graphs of a model, with the bodies inside them, enumerated without recursion, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import onnx

from caffe2_bridge.bounds import MAX_BODIES
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location


@dataclass(eq=False)
class GraphScope:
    """A graph, a function, or a body.

    Attributes:
        proto: what holds the nodes.
        location: where it is, for diagnostics.
        depth: the number of enclosing graphs.
        root: the outermost graph or function that encloses it; None where it is itself that.
        parent: the enclosing scope, and ``node`` the index of the node there whose attribute it is; None for the
            default value of a function's attribute.
        nodes: its nodes.
        attributes: those of each node.
    """

    proto: onnx.GraphProto | onnx.FunctionProto
    location: Location
    depth: int = 0
    root: GraphScope | None = None
    parent: GraphScope | None = None
    node: int | None = None
    nodes: Sequence[onnx.NodeProto] = field(init=False)
    attributes: Sequence[Sequence[onnx.AttributeProto]] = field(init=False)

    def __post_init__(self) -> None:
        # Lists, since the messages of a repeated field are looked up anew at every access.
        self.nodes = list(self.proto.node)
        self.attributes = [list(node.attribute) for node in self.nodes]

    def at(self, index: int | None) -> Location:
        """Return the location of one of its nodes, its own for None."""
        if index is None:
            return self.location
        node = self.nodes[index]
        return replace(self.location, index=index, op_type=node.op_type, op_name=node.name)

    @cached_property
    def tensors(self) -> Sequence[ScopeTensor]:
        """Every tensor of the scope itself, not of the bodies in it."""
        return list(_tensors(self))


class ScopeTensor(NamedTuple):
    """A tensor of a scope.

    Attributes:
        proto: the tensor.
        node: the index of the node that has it; None for one of the graph, or of the default of a function's attribute.
        kind: what it is, which has ``name``.
    """

    proto: onnx.TensorProto
    node: int | None
    kind: str
    name: str

    @property
    def what(self) -> str:
        """What it is, and its name."""
        return f"{self.kind} {self.name!r}"


def scopes_of(model: onnx.ModelProto) -> list[GraphScope]:
    """Return the graph, the functions, training graphs, and all bodies in them, each after what encloses it.

    Raises ConversionError where they are nested too deeply.
    """
    roots = [GraphScope(model.graph, Location(model.graph.name or "graph"))]
    roots += [GraphScope(function, Location(function.name or "function")) for function in model.functions]
    for training in model.training_info:
        roots += [GraphScope(graph, Location(graph.name or "training")) for graph in _training_graphs(training)]
    found: list[GraphScope] = []
    waiting = roots[::-1]
    while waiting:
        scope = waiting.pop()
        found.append(scope)
        bodies = list(_bodies(scope))
        if bodies and scope.depth == MAX_BODIES:
            raise too_deep(bodies[0].location)
        waiting += reversed(bodies)
    return found


def too_deep(location: Location) -> ConversionError:
    """Return the error for bodies that are nested too deeply."""
    return ConversionError([Diagnostic("nesting", f"bodies must not be nested deeper than {MAX_BODIES}", location)])


def attributes_of(scope: GraphScope) -> Iterator[tuple[int | None, onnx.AttributeProto]]:
    """Yield the attributes of all nodes of a scope, with the node's index: None for the default of a function's."""
    for index, attributes in enumerate(scope.attributes):
        for attribute in attributes:
            yield index, attribute
    if isinstance(scope.proto, onnx.FunctionProto):
        for attribute in scope.proto.attribute_proto:
            yield None, attribute


def _training_graphs(training: onnx.TrainingInfoProto) -> Iterator[onnx.GraphProto]:
    if training.HasField("initialization"):
        yield training.initialization
    if training.HasField("algorithm"):
        yield training.algorithm


def _bodies(scope: GraphScope) -> Iterator[GraphScope]:
    """Yield the bodies in any field of an attribute, whatever its type says: readers differ in what they trust."""
    for index, attribute in attributes_of(scope):
        graphs = [attribute.g] if attribute.HasField("g") else []
        for graph in (*graphs, *attribute.graphs):
            location = scope.at(index).enter(attribute.name)
            yield GraphScope(graph, location, scope.depth + 1, scope.root or scope, scope, index)


def _tensors(scope: GraphScope) -> Iterator[ScopeTensor]:
    if isinstance(scope.proto, onnx.GraphProto):
        for tensor in scope.proto.initializer:
            yield ScopeTensor(tensor, None, "initializer", tensor.name)
        for sparse in scope.proto.sparse_initializer:
            for tensor in (sparse.values, sparse.indices):
                yield ScopeTensor(tensor, None, "sparse initializer", sparse.values.name)
    for index, attribute in attributes_of(scope):
        # In whichever field they are, whatever the attribute's type says: readers differ in what they trust.
        tensors = [attribute.t] if attribute.HasField("t") else []
        sparses = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for sparse in (*sparses, *attribute.sparse_tensors):
            tensors += [sparse.values, sparse.indices]
        for tensor in (*tensors, *attribute.tensors):
            yield ScopeTensor(tensor, index, "attribute", attribute.name)
