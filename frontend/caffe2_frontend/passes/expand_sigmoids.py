"""Compute sigmoids from exponentials where more matters than their absolute error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes, value_names
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operators import MOVES
from caffe2_frontend.interop.rewriting.node_rewriter import NodeRewriter
from caffe2_frontend.state import Export

# Operators whose results near 0 are as exact as their operands.
_PASSING: Final = MOVES | {"Abs", "Add", "Cast", "Clip", "Div", "Max", "Min", "Mul", "Neg", "Sum", "Where"}
_FORM: Final = ("Neg", "Softplus", "Neg", "Exp")


class ExpandSigmoids(InPlacePass[Export]):
    """Compute a Sigmoid whose result a logarithm reads as ``exp(-log(1 + exp(-x)))``.

    onnxruntime's CPU kernel is exact to about 3e-8, and 0 from -18 on, where Caffe2's has all digits: the loss of a
    probability of 2e-9 is 20 in Caffe2, and would be that of none at all. What is read is followed back through the
    operators of a graph and those around a body, but not through what a body takes and returns by name.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})

    def __call__(self, state: Export) -> None:
        """Replace the nodes, in bodies too."""
        if state.model is None or state.options.fp16:  # in half precision the logarithm has fewer digits
            return
        graph = state.model.graph
        found = list(_sensitive(graph))
        names = Names(value_names(graph)) if found else Names()
        for node in found:
            _expand(node, names)


def _sensitive(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the sigmoids of float32 of which more than the absolute error matters: logarithms read what they make."""
    waiting = [node.inputs[0] for node in all_nodes(graph) if node.op_type == "Log" and not node.domain]
    seen: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        node = value.producer()
        if node is None or node.domain:
            continue
        if node.op_type in _PASSING:
            waiting += node.inputs
        elif node.op_type == "Sigmoid" and value.dtype == ir.DataType.FLOAT:
            yield node


def _expand(node: ir.Node, names: Names) -> None:
    """Compute a Sigmoid otherwise; its last node is the given one, so that its result stays the same value."""
    at = NodeRewriter(node, names)
    operand = at.input(0)
    for op_type in _FORM[:-1]:
        operand = at.emit_like(node.outputs[0], op_type, operand)
    at.commit(None)
    node.op_type = _FORM[-1]
    at.replace_input(0, operand)
