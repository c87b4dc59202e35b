"""The bodies of ONNX nodes: the graphs among their attributes."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the bodies of a node, without those nested in them; ``ir.Graph.all_nodes`` walks through all of them."""
    for attr in node.attributes.data.values():  # the view of a UserDict looks each key up again
        if attr.type == ir.AttributeType.GRAPH:
            yield attr.as_graph()
        elif attr.type == ir.AttributeType.GRAPHS:
            yield from attr.as_graphs()


def has_bodies(node: ir.Node) -> bool:
    """Whether a node has a body, which may be empty: an empty graph is false."""
    return next(bodies(node), None) is not None


def all_nodes(graph: ir.Graph | ir.Function) -> Iterator[ir.Node]:
    """Yield a graph's nodes, each followed by those of its bodies, at any depth; faster than ``onnx_ir``'s iterator."""
    for node in graph:
        yield node
        if node.attributes.data:
            for body in bodies(node):
                yield from all_nodes(body)


def all_graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph and the bodies in it, at any depth, each before those of its own nodes; faster than ``onnx_ir``'s.

    It is walked through while it is read: a caller that adds nodes takes a list first.
    """
    yield graph
    for node in graph:
        if node.attributes.data:
            for body in bodies(node):
                yield from all_graphs(body)


def value_names(graph: ir.Graph) -> Iterator[str]:
    """Yield the names of all values of a graph and of its bodies."""
    for each in all_graphs(graph):
        for value in (*each.inputs, *each.initializers.values(), *(value for node in each for value in node.outputs)):
            yield str(value.name)


def captured_values(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values of enclosing graphs that the bodies of a node read or output, in order, with repetitions."""
    for graph in bodies(node):
        yield from _captured(graph, set())


def _captured(graph: ir.Graph, known: set[ir.Value]) -> Iterator[ir.Value]:
    known = known.union(graph.inputs, graph.initializers.values())
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in known:
                yield value
        for body in bodies(node):
            yield from _captured(body, known)
        known.update(node.outputs)
    for value in graph.outputs:
        if value not in known:
            yield value


def proto_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a protobuf graph, each followed by those of its bodies, at any depth."""
    for node in graph.node:
        yield node
        for body in proto_bodies(node):
            yield from proto_nodes(body)


def proto_bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the bodies of a protobuf node, without those nested in them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
