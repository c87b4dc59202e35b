"""Small edits of graphs that are about to run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

Shape = tuple[int, ...]


def static_shape(value: ir.Value) -> Shape | None:
    """The shape of a value of which all dims are known."""
    if value.shape is None:
        return None
    dims = tuple(dim for dim in value.shape if isinstance(dim, int))
    return dims if len(dims) == len(value.shape) else None


def int64_vector(graph: ir.Graph, name: str, values: Sequence[int]) -> ir.Value:
    """Add an initializer."""
    tensor = ir.tensor(np.array(values, np.int64), name=name)
    shape = ir.Shape([len(values)])
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
    graph.register_initializer(value)
    return value


def remove_unread(graph: ir.Graph, node: ir.Node | None) -> None:
    """Remove a node whose outputs nothing reads, and what only it read."""
    if node is None or any(value.consumers() or value.is_graph_output() for value in node.outputs):
        return
    sources = [value.producer() for value in node.inputs if value is not None]
    graph.remove(node, safe=True)
    for source in sources:
        if source is None or source.graph is graph:
            remove_unread(graph, source)
