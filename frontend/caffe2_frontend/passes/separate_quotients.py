"""Keep integer quotients apart from the products that read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes, value_names
from caffe2_frontend.interop.constants import constant_of
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.names import Names
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
    """The integer divisions of a constant 1 that a product reads."""
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
    quotient = _insert_before(node, "Div", node.inputs, names)
    square = _insert_before(node, "Mul", [quotient, quotient], names)
    node.op_type = "Mul"
    node.replace_input_with(0, square)
    node.replace_input_with(1, quotient)


def _insert_before(node: ir.Node, op_type: str, operands: Sequence[ir.Value | None], names: Names) -> ir.Value:
    """Insert a node whose result is of the type and shape of that of the given one."""
    assert node.graph is not None
    step = ir.node(op_type, operands)
    step.metadata_props.update(node.metadata_props)
    result, value = node.outputs[0], step.outputs[0]
    value.name, value.type, value.shape = names.fresh(f"{result.name}/{op_type}"), result.type, result.shape
    node.graph.insert_before(node, step)
    return value
