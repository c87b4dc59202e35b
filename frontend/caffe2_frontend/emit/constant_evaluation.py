"""Evaluation of small integer tensors (shapes, axes, indices) through the nodes that compute them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.lowering.op import Op, Value

# Larger tensors are data, not shapes, axes or indices.
_MAX_ELEMENTS: Final = 64
# Values that others are evaluated from, beyond which nothing is: sizes are computed in a few steps.
_MAX_VALUES: Final = 512
_INTEGERS: Final = (ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL)
_EVALUATED_OPS: Final = frozenset({
    "Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Gather", "Identity", "Less", "Max", "Min",
    "Mul", "Neg", "Reshape", "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Sub", "Unsqueeze", "Where",
})  # fmt: skip


def constant_integers(op: Op, value: Value) -> Array | None:
    """The contents of a small integer tensor if they follow from constants and known dims alone, else None."""
    contents = _evaluate(op, value)
    if contents is not None and value.const_value is None:
        op.depends_on(value, contents)
    return contents


def _evaluate(op: Op, value: Value) -> Array | None:
    """Evaluate what a value is computed from, then the value.

    Each node is evaluated once: where it is an operand twice, at each of n levels, there are 2^n ways to it.
    """
    contents: dict[Value, Array] = {}
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
            results = _contents(op, known, contents)
            if results is None:
                return None
            contents.update(results)
    return contents[value]


def _operands(value: Value) -> list[Value]:
    """The values that a value is evaluated from; none of one that is known without them, or not at all."""
    node = value.producer()
    if (
        value.const_value is not None
        or node is None
        or standard_type(node) not in _EVALUATED_OPS
        or not _is_small(value)
    ):
        return []
    return [operand for operand in node.inputs if operand is not None]


def _contents(op: Op, value: Value, contents: Mapping[Value, Array]) -> Mapping[Value, Array] | None:
    """The contents of a value, and of other outputs of its node, from those of its operands."""
    if value.const_value is not None:
        known = op.known(value) if value.const_value.size <= _MAX_ELEMENTS else None
        return None if known is None else {value: known}
    node = value.producer()
    if node is None or not _is_small(value):
        return None
    if standard_type(node) == "Shape":
        dims = _dims(node)
        return None if dims is None else {value: dims}
    if standard_type(node) not in _EVALUATED_OPS:
        return None
    results = _run(op, node, [None if operand is None else contents[operand] for operand in node.inputs])
    return None if results is None else dict(zip(node.outputs, results, strict=True))


def _is_small(value: Value) -> bool:
    if value.dtype not in _INTEGERS or value.shape is None or not value.shape.is_static():
        return False
    return prod(value.shape.numpy()) <= _MAX_ELEMENTS


def _dims(node: ir.Node) -> Array | None:
    origin = node.inputs[0]
    if origin is None or origin.shape is None or {"start", "end"} & node.attributes.keys():
        return None
    return np.array(origin.shape.numpy(), np.int64) if origin.shape.is_static() else None


def _run(op: Op, node: ir.Node, inputs: list[Array | None]) -> list[Array] | None:
    """Evaluate a node; None where it rejects its operands (a Gather out of bounds), which a run will report."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(ir.serde.serialize_node(node), opsets={"": op.scope.opset})
    feed = {str(v.name): array for v, array in zip(node.inputs, inputs, strict=True) if v is not None}
    try:
        return [np.asarray(result) for result in evaluator.run(None, feed)]
    except (IndexError, ValueError):
        return None
