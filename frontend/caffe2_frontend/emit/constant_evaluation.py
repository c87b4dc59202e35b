"""Evaluation of small integer tensors (shapes, axes, indices) through the nodes that compute them."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.lowering.op import Op, Value

# Larger tensors are data, not shapes, axes or indices.
_MAX_ELEMENTS: Final = 64
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
    if value.const_value is not None:
        return op.known(value) if value.const_value.size <= _MAX_ELEMENTS else None
    node = value.producer()
    if node is None or value.dtype not in _INTEGERS or not _is_small(value):
        return None
    if node.op_type == "Shape":
        return _dims(node)
    if node.op_type not in _EVALUATED_OPS:
        return None
    inputs = [None if operand is None else _evaluate(op, operand) for operand in node.inputs]
    if any(array is None for operand, array in zip(node.inputs, inputs, strict=True) if operand is not None):
        return None
    results = _run(op, node, inputs)
    return None if results is None else results[node.outputs.index(value)]


def _is_small(value: Value) -> bool:
    return value.shape is not None and value.shape.is_static() and prod(value.shape.numpy()) <= _MAX_ELEMENTS


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
