"""Evaluation of small tensors (shapes, axes, indices, scales) through the nodes that compute them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import PARTS, REPEATS, UNENDING, VIEWS
from caffe2_frontend.lowering.op import Op, Value

# Larger tensors are data, not shapes, axes or indices.
_MAX_ELEMENTS: Final = 64
# Values that others are evaluated from, beyond which nothing is: sizes are computed in a few steps.
_MAX_VALUES: Final = 512
_INTEGERS: Final = (ir.DataType.INT32, ir.DataType.INT64)
_EVALUATED_TYPES: Final = (*_INTEGERS, ir.DataType.BOOL, ir.DataType.FLOAT)
# These move elements of their first operand (Concat: of all), and do not compute with them.
_MOVING_OPS: Final = (VIEWS | PARTS | {"Cast", "Concat"}) - UNENDING
_EVALUATED_OPS: Final = _MOVING_OPS | {
    "Add", "Compress", "ConstantOfShape", "Div", "Equal", "Expand", "Less", "Max", "Min", "Mul", "Neg", "Not",
    "ScatterElements", "ScatterND", "Shape", "Sub", "Where",
}  # fmt: skip
# These repeat the elements of their first operand in an integer vector, or keep them.
_REPEATING_OPS: Final = VIEWS | REPEATS | {"Cast"}
# These compute sizes of sizes and of integers that are not negative.
_SIZE_OPS: Final = frozenset({"Add", "Div", "Max", "Min", "Mul"})
# The n-th element that is known at run time alone has this number less n while others are moved.
_FIRST_LABEL: Final = -(1 << 30)


@dataclass(frozen=True)
class Element:
    """An element of a small integer tensor that is known at run time alone."""

    value: Value
    index: int

    @property
    def measured(self) -> tuple[Value, int] | None:
        """The tensor and the axis whose size the element is; None if it is another number."""
        node = self.value.producer()
        if node is None or standard_type(node) != "Shape" or node.inputs[0] is None:
            return None
        return node.inputs[0], node.attributes.get_int("start", 0) + self.index


def known_values(op: Op, value: Value) -> Array | None:
    """Return the contents of a small tensor if they follow from constants and known dims alone, else None."""
    contents = _Evaluation(op).evaluate(value)
    if contents is not None and value.const_value is None:
        op.depends_on(value, contents)
    return contents


def known_elements(op: Op, value: Value) -> list[int | Element] | None:
    """Return the elements of a small integer tensor, each as far as it is known; None if not even their number is.

    A converter that uses what is known of them looks behind the value (:meth:`Op.looks_behind`).
    """
    evaluation = _Evaluation(op, partial=True)
    contents = evaluation.evaluate(value) if value.dtype in _INTEGERS else None
    if contents is None:
        return None
    return [evaluation.labels.get(number, number) for number in contents.reshape(-1).tolist()]


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


@dataclass
class _Evaluation:
    """The evaluation of one value. With ``partial``, elements that are not known get a number as a label."""

    op: Op
    partial: bool = False
    labels: dict[int, Element] = field(default_factory=dict)

    def evaluate(self, value: Value) -> Array | None:
        """Evaluate what a value is computed from, then the value.

        Each node is evaluated once: where it is an operand twice, at each of n levels, there are 2^n ways to it.
        """
        contents: dict[Value, Array | None] = {}
        waiting = [value]
        while waiting:
            missing = [operand for operand in _operands(waiting[-1]) if operand not in contents]
            if len(waiting) + len(missing) + len(contents) > _MAX_VALUES:
                return None
            if missing:
                waiting += missing
                continue
            known = waiting.pop()
            if known not in contents:
                results = self._contents(known, contents) or self._labelled(known)
                if results is not None:
                    contents.update(results)
                elif self.partial:
                    contents[known] = None
                else:
                    return None
        return contents[value]

    def _labelled(self, value: Value) -> Mapping[Value, Array] | None:
        """Return labels for the elements of a value that is known at run time alone."""
        if not self.partial or value.const_value is not None or value.dtype not in _INTEGERS or not _is_small(value):
            return None
        assert value.shape is not None  # _is_small
        shape = value.shape.numpy()
        return {value: np.array([self._label(value, i) for i in range(prod(shape))], np.int64).reshape(shape)}

    def _label(self, value: Value, index: int) -> int:
        label = _FIRST_LABEL - len(self.labels)
        self.labels[label] = Element(value, index)
        return label

    def _contents(self, value: Value, contents: Mapping[Value, Array | None]) -> Mapping[Value, Array] | None:
        """Return the contents of a value, and of other outputs of its node, from those of its operands."""
        if value.const_value is not None:
            known = self.op.known(value) if value.const_value.size <= _MAX_ELEMENTS else None
            is_label = self.partial and known is not None and known.size and known.min() <= _FIRST_LABEL
            return None if known is None or is_label else {value: known}
        node = value.producer()
        if node is None or not _is_small(value) or standard_type(node) not in _EVALUATED_OPS:
            return None
        if standard_type(node) == "Shape":
            return self._dims(node)
        inputs = [None if operand is None else contents[operand] for operand in node.inputs]
        if any(operand is not None and array is None for operand, array in zip(node.inputs, inputs, strict=True)):
            return None
        if self.labels and not self._are_moved(node, inputs):
            return None
        results = _run(self.op, node, inputs)
        return None if results is None else dict(zip(node.outputs, results, strict=True))

    def _dims(self, node: ir.Node) -> Mapping[Value, Array] | None:
        measured, value = node.inputs[0], node.outputs[0]
        if measured is None or measured.shape is None:
            return None
        dims = list(measured.shape)[node.attributes.get_int("start", 0) : node.attributes.get_int("end", None)]
        if not self.partial and not all(isinstance(dim, int) for dim in dims):
            return None
        numbers = [dim if isinstance(dim, int) else self._label(value, i) for i, dim in enumerate(dims)]
        return {value: np.array(numbers, np.int64)}

    def _are_moved(self, node: ir.Node, inputs: list[Array | None]) -> bool:
        """Whether a node moves labels, if it has any among its operands, to an integer tensor."""
        labelled = [array is not None and bool(np.isin(array, [*self.labels]).any()) for array in inputs]
        if not any(labelled):
            return True
        op_type = standard_type(node)
        movable = labelled if op_type == "Concat" else labelled[:1]
        return op_type in _MOVING_OPS and node.outputs[0].dtype in _INTEGERS and sum(movable) == sum(labelled)


def _operands(value: Value) -> list[Value]:
    """Return the values that a value is evaluated from; none of one that is known without them, or not at all."""
    node = value.producer()
    if (
        value.const_value is not None
        or node is None
        or standard_type(node) not in _EVALUATED_OPS
        or standard_type(node) == "Shape"
        or not _is_small(value)
    ):
        return []
    return [operand for operand in node.inputs if operand is not None]


def _is_small(value: Value) -> bool:
    if value.dtype not in _EVALUATED_TYPES or value.shape is None or not value.shape.is_static():
        return False
    return prod(value.shape.numpy()) <= _MAX_ELEMENTS


def _run(op: Op, node: ir.Node, inputs: list[Array | None]) -> list[Array] | None:
    """Evaluate a node; None where it rejects its operands (a Gather out of bounds), which a run will report."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(ir.serde.serialize_node(node), opsets={"": op.scope.opset})
    feed = {str(v.name): array for v, array in zip(node.inputs, inputs, strict=True) if v is not None}
    try:
        return [np.asarray(result) for result in evaluator.run(None, feed)]
    except (IndexError, ValueError):
        return None
