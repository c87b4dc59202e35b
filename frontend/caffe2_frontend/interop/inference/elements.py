"""The elements of small tensors (shapes, axes, indices, scales), evaluated through the nodes that compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.inference.node_evaluation import evaluation_of
from caffe2_frontend.interop.operators import PARTS, UNENDING, VIEWS

# Larger tensors are data, not shapes, axes or indices.
_MAX_ELEMENTS: Final = 64
# Values that others are evaluated from, beyond which nothing is: sizes are computed in a few steps.
_MAX_VALUES: Final = 512
INTEGERS: Final = (ir.DataType.INT32, ir.DataType.INT64)
_EVALUATED_TYPES: Final = (*INTEGERS, ir.DataType.BOOL, ir.DataType.FLOAT)
# These move elements of their first operand (Concat: of all), and do not compute with them.
_MOVING_OPS: Final = (VIEWS | PARTS | {"Cast", "Concat", "Transpose"}) - UNENDING
_EVALUATED_OPS: Final = _MOVING_OPS | {
    "Add", "Compress", "ConstantOfShape", "Div", "Equal", "Expand", "Less", "Max", "Min", "Mul", "Neg", "Not",
    "ScatterElements", "ScatterND", "Shape", "Sub", "Where",
}  # fmt: skip
# The n-th element that is known at run time alone has this number less n while others are moved.
_FIRST_LABEL: Final = -(1 << 30)
_LAST_LABEL: Final = _FIRST_LABEL - _MAX_ELEMENTS * _MAX_VALUES


@dataclass(frozen=True)
class Element:
    """An element of a small integer tensor that is known at run time alone."""

    value: ir.Value
    index: int

    @property
    def measured(self) -> tuple[ir.Value, int] | None:
        """The tensor and the axis whose size the element is; None if it is another number."""
        node = self.value.producer()
        if node is None or standard_type(node) != "Shape" or node.inputs[0] is None:
            return None
        return node.inputs[0], node.attributes.get_int("start", 0) + self.index


@dataclass
class Evaluation:
    """The evaluation of one value by the operators of an opset.

    ``read`` returns the contents of a constant. With ``partial``, elements that are not known get a number as a label.
    """

    opset: int
    read: Callable[[ir.Value], Array | None]
    partial: bool = False
    labels: dict[int, Element] = field(default_factory=dict)

    def elements(self, value: ir.Value) -> list[int | Element] | None:
        """Return the elements of an integer tensor, each as far as it is known; None if not even their number is."""
        contents = self.evaluate(value) if value.dtype in INTEGERS else None
        return None if contents is None else [self.labels.get(n, n) for n in contents.reshape(-1).tolist()]

    def evaluate(self, value: ir.Value) -> Array | None:
        """Evaluate what a value is computed from, then the value.

        Each node is evaluated once: where it is an operand twice, at each of n levels, there are 2^n ways to it.
        """
        contents: dict[ir.Value, Array | None] = {}
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

    def _labelled(self, value: ir.Value) -> Mapping[ir.Value, Array] | None:
        """Return labels for the elements of a value that is known at run time alone."""
        if not self.partial or value.const_value is not None or value.dtype not in INTEGERS or not _is_small(value):
            return None
        assert value.shape is not None  # _is_small
        shape = value.shape.numpy()
        return {value: np.array([self._label(value, i) for i in range(prod(shape))], np.int64).reshape(shape)}

    def _label(self, value: ir.Value, index: int) -> int:
        label = _FIRST_LABEL - len(self.labels)
        self.labels[label] = Element(value, index)
        return label

    def _contents(self, value: ir.Value, contents: Mapping[ir.Value, Array | None]) -> Mapping[ir.Value, Array] | None:
        """Return the contents of a value, and of other outputs of its node, from those of its operands."""
        if value.const_value is not None:
            known = self.read(value) if value.const_value.size <= _MAX_ELEMENTS else None
            is_label = (
                self.partial and known is not None and bool(((known >= _LAST_LABEL) & (known <= _FIRST_LABEL)).any())
            )
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
        results = _run(self.opset, node, inputs)
        return None if results is None else dict(zip(node.outputs, results, strict=True))

    def _dims(self, node: ir.Node) -> Mapping[ir.Value, Array] | None:
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
        return op_type in _MOVING_OPS and node.outputs[0].dtype in INTEGERS and sum(movable) == sum(labelled)


def _operands(value: ir.Value) -> list[ir.Value]:
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


def _is_small(value: ir.Value) -> bool:
    if value.dtype not in _EVALUATED_TYPES or value.shape is None or not value.shape.is_static():
        return False
    return prod(value.shape.numpy()) <= _MAX_ELEMENTS


def _run(opset: int, node: ir.Node, inputs: list[Array | None]) -> list[Array] | None:
    """Evaluate a node; None where it rejects its operands (a Gather out of bounds), which a run will report."""
    feed = {str(v.name): array for v, array in zip(node.inputs, inputs, strict=True) if v is not None}
    try:
        return [np.asarray(result) for result in evaluation_of(ir.serde.serialize_node(node), opset)(feed)]
    except (IndexError, ValueError):
        return None
