"""Keep integer quotients apart from the products that read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes, value_names
from caffe2_frontend.interop.constants import constant_of
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.rewriting.node_rewriter import NodeRewriter
from caffe2_frontend.state import Export


class SeparateQuotients(InPlacePass[Export]):
    """Compute an integer quotient of 1 that a product reads as its own third power: it is -1, 0 or 1.

    ``Mul(Div(1, d), y)`` => ``q = Div(1, d), Mul(Mul(Mul(q, q), q), y)``

    onnxruntime 1.32: DivMulFusion makes ``Div(y, d)`` of a Mul and a Div that only it reads, of integers too, although
    1 / d is 0 where y / d need not be.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})

    def __call__(self, state: Export) -> None:
        """Replace the quotients, in bodies too."""
        if state.model is None:
            return
        graph = state.model.graph
        found = list(_fusible(graph))
        names = Names(value_names(graph)) if found else Names()
        for node in found:
            _separate(node, names)


def _fusible(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the integer divisions of a constant 1 that a product reads."""
    for node in all_nodes(graph):
        is_inverse = standard_type(node) == "Div" and _is_integer_one(node.inputs[0])
        if is_inverse and any(standard_type(user) == "Mul" for user in node.outputs[0].consumers()):
            yield node


def _is_integer_one(value: ir.Value | None) -> bool:
    if value is None or (value.const_value is not None and value.const_value.size != 1):
        return False
    known = constant_of(value)
    return known is not None and known.dtype.kind in "iu" and known.size == 1 and known.item() == 1


def _separate(node: ir.Node, names: Names) -> None:
    """Compute a quotient otherwise; the last node is the given one, so that its result stays the same value."""
    at, result = NodeRewriter(node, names), node.outputs[0]
    quotient = at.emit_like(result, "Div", *node.inputs)
    square = at.emit_like(result, "Mul", quotient, quotient)
    at.commit(None)
    node.op_type = "Mul"
    at.replace_input(0, square)
    at.replace_input(1, quotient)
