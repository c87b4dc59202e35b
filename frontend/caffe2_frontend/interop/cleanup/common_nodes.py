"""Eliminate common subexpressions of an ONNX graph, as ``onnx_ir`` does, in less time.

Unlike its pass, this one goes into bodies, and returns what it replaced.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Mapping
from typing import Any, Final

import onnx_ir as ir

from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.interop.operators import RANDOM

# Tensors with more elements are weights: they are not compared.
_MOST_ELEMENTS: Final = 10
_LISTS: Final = frozenset({ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS})
_BODIES: Final = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})


def eliminate_common_nodes(
    graph: ir.Graph, outer: ChainMap[Hashable, ir.Node] | None = None
) -> dict[ir.Value, ir.Value]:
    """Remove the nodes of a graph and its bodies that compute what an earlier one, of enclosing graphs too, computes.

    A node that makes an output of a body stays: it must be one of the body's own.

    Args:
        graph: the graph.
        outer: the nodes of enclosing graphs so far, by what they compute; None for the graph of a model.

    Returns:
        The values that were replaced, each with the value in its place.
    """
    first: ChainMap[Hashable, ir.Node] = ChainMap() if outer is None else outer.new_child()
    replaced: dict[ir.Value, ir.Value] = {}
    for node in graph:
        for body in bodies(node):
            replaced |= eliminate_common_nodes(body, first)
        if outer is not None and any(value.is_graph_output() for value in node.outputs):
            continue
        attributes = compared_attributes(node) if node.attributes else ()
        if attributes is None or (node.op_type in RANDOM and not node.domain):
            continue
        outputs = node.outputs
        key = (node.op_type, node.domain, node.overload, len(outputs), node.inputs, attributes)
        same = first.setdefault(key, node)
        if same is not node:
            others = same.outputs
            replaced.update(zip(outputs, others, strict=True))
            _replace_outputs(graph, node, dict(zip(outputs, others, strict=True)))
            ir.convenience.replace_all_uses_with(outputs, others)
            graph.remove(node, safe=True)
    return replaced


def compared_attributes(node: ir.Node) -> Hashable | None:
    """Return the attributes of a node; None where nodes with equal ones need not be equal, or are not compared."""
    found: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        value = attribute.value
        if attribute.type in _BODIES:
            return None
        if attribute.type in _LISTS:
            value = tuple(value)
        elif attribute.type == ir.AttributeType.TENSOR:
            if value.size > _MOST_ELEMENTS:
                return None
            array = value.numpy()
            value = (array.shape, str(array.dtype), array.tobytes())
        found[name] = value
    return tuple(sorted(found.items()))


def _replace_outputs(graph: ir.Graph, node: ir.Node, others: Mapping[ir.Value, ir.Value]) -> None:
    """Let the graph output what replaces outputs of a node, under their names.

    A value that is an input or an output already is passed through an Identity.
    """
    if not any(value.is_graph_output() for value in others):
        return
    for index, output in enumerate(graph.outputs):
        other = others.get(output)
        if other is None:
            continue
        if other.is_graph_output() or other.is_graph_input():
            result = ir.Value(name=output.name, type=output.type, shape=output.shape)
            graph.insert_before(node, ir.node("Identity", inputs=[other], outputs=[result]))
            graph.outputs[index] = result
        else:
            other.name = output.name
            graph.outputs[index] = other
