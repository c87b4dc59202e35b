"""Evaluation of small tensors (shapes, axes, indices, scales) through the nodes that compute them."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.inference.elements import Element, Evaluation
from caffe2_frontend.interop.operators import REPEATS, VIEWS
from caffe2_frontend.lowering.op import Op, Value

# These repeat the elements of their first operand in an integer vector, or keep them.
_REPEATING_OPS: Final = VIEWS | REPEATS | {"Cast"}
# These compute sizes of sizes and of integers that are not negative.
_SIZE_OPS: Final = frozenset({"Add", "Div", "Max", "Min", "Mul"})


def known_values(op: Op, value: Value) -> Array | None:
    """Return the contents of a small tensor if they follow from constants and known dims alone, else None."""
    contents = Evaluation(op.scope.opset, op.known).evaluate(value)
    if contents is not None and value.const_value is None:
        op.depends_on(value, contents)
    return contents


def known_elements(op: Op, value: Value) -> list[int | Element] | None:
    """Return the elements of a small integer tensor, each as far as it is known; None if not even their number is.

    A converter that uses what is known of them looks behind the value (:meth:`Op.looks_behind`).
    """
    return Evaluation(op.scope.opset, op.known, partial=True).elements(value)


def is_repeated_size(op: Op, value: Value, x: Value, axis: int) -> bool:
    """Whether each element of a computed integer tensor is the dim of ``x`` at ``axis``."""
    elements, node = known_elements(op, value), value.producer()
    while not elements and node is not None and standard_type(node) in _REPEATING_OPS and node.inputs[0] is not None:
        value = node.inputs[0]
        elements, node = known_elements(op, value), value.producer()
    dim = op.shape(x)[axis]
    return value.const_value is None and bool(elements) and all(_is_dim(each, x, axis, dim) for each in elements or ())


def _is_dim(element: int | Element, x: Value, axis: int, dim: int | ir.SymbolicDim) -> bool:
    if isinstance(element, int) or element.measured is None:
        return element == dim
    measured, own = element.measured
    if (measured, own) == (x, axis):
        return True
    other = None if measured.shape is None else measured.shape[own]
    return not isinstance(dim, int) and dim.value is not None and other == dim


def is_size(op: Op, element: int | Element) -> bool:
    """Whether an element is a dim, or computed from dims, and thus never negative."""
    if isinstance(element, int):
        return element >= 0
    node = element.value.producer()
    if node is None or standard_type(node) not in _SIZE_OPS:
        return element.measured is not None
    parts = [None if value is None else known_elements(op, value) for value in node.inputs]
    return all(part is not None and all(is_size(op, each) for each in part) for part in parts)
