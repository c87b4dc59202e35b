"""A cheap fingerprint of an ONNX model's structure, which tells whether a pass changed the model."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import onnx_ir as ir


def model_fingerprint(model: ir.Model) -> Hashable:
    """Return a value that differs after a change of nodes, values, attributes, metadata or versions of ``model``.

    Tensors count by identity: no weight is read. The order of initializers, which has no meaning, does not count.
    """
    functions = [(key, tuple(map(_node, function))) for key, function in model.functions.items()]
    return hash((model.ir_version, tuple(sorted(model.metadata_props.items())), _graph(model.graph), tuple(functions)))


def _graph(graph: ir.Graph) -> Hashable:
    return (
        graph.name,
        tuple(sorted(graph.opset_imports.items())),
        tuple(map(_value, graph.inputs)),
        tuple(map(_value, graph.outputs)),
        frozenset((name, _value(value)) for name, value in graph.initializers.items()),
        tuple(map(_node, graph)),
    )


def _node(node: ir.Node) -> Hashable:
    return (
        (node.domain, node.op_type, node.name),
        tuple(None if value is None else (id(value), value.name) for value in node.inputs),
        tuple(map(_value, node.outputs)),
        tuple(_attributes(node)),
        tuple(sorted(node.metadata_props.items())),
    )


def _attributes(node: ir.Node) -> Iterator[Hashable]:
    for name, attr in node.attributes.items():
        if attr.type is ir.AttributeType.GRAPH:
            yield name, _graph(attr.as_graph())
        elif attr.type is ir.AttributeType.GRAPHS:
            yield name, tuple(map(_graph, attr.as_graphs()))
        elif attr.type in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS):
            yield name, id(attr.value)
        else:
            yield name, repr(attr.value)


def _value(value: ir.Value) -> Hashable:
    kind = value.type
    dims = None if value.shape is None else value.shape.dims
    # A type of its own hashes its text, which takes as long as all the rest: a tensor's is its class and element type.
    return id(value), value.name, type(kind), None if kind is None else kind.elem_type, dims, id(value.const_value)
