"""Small edits of graphs that are about to run."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.interop.domains import is_standard

Shape = tuple[int, ...]


def static_shape(value: ir.Value) -> Shape | None:
    """Return the shape of a value of which all dims are known."""
    if value.shape is None:
        return None
    dims = tuple(dim for dim in value.shape if isinstance(dim, int))
    return dims if len(dims) == len(value.shape) else None


def are_alike(a: ir.Value, b: ir.Value) -> bool:
    """Whether two values are tensors of one element type and one static shape."""
    shape = static_shape(a)
    return isinstance(a.type, ir.TensorType) and a.type == b.type and shape is not None and shape == static_shape(b)


def drop_unit_factors(graph: ir.Graph) -> None:
    """Drop products with a constant 1 that is a scalar, such as the weight of a parameter that is updated, in place.

    onnxruntime keeps those of values whose rank it does not know yet when it looks for them.
    """
    for node in list(graph):
        if node.op_type != "Mul" or not is_standard(node) or node.outputs[0].is_graph_output():
            continue
        x, factor = node.inputs if _is_one(node.inputs[1]) else reversed(node.inputs)
        if x is not None and _is_one(factor):
            node.outputs[0].replace_all_uses_with(x)
            graph.remove(node, safe=True)


def _is_one(value: ir.Value | None) -> bool:
    if value is None or value.const_value is None or static_shape(value) != ():
        return False
    return value.is_initializer() and not value.is_graph_input() and bool(value.const_value.numpy() == 1)


def remove_unread(graph: ir.Graph, node: ir.Node | None) -> None:
    """Remove a node whose outputs nothing reads, and what only it read."""
    if node is None or any(value.consumers() or value.is_graph_output() for value in node.outputs):
        return
    sources = [value.producer() for value in node.inputs if value is not None]
    graph.remove(node, safe=True)
    for source in sources:
        if source is None or source.graph is graph:
            remove_unread(graph, source)
