"""What real Caffe2 requires of the shapes of operands: rules that cost nothing, and say what is wrong.

A rule takes an operator and those operands that are known, the others None.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from caffe2_bridge.netdef.views import OpView


def equal_shapes(_: OpView, operands: Sequence[Any]) -> str | None:
    """Of all operands."""
    first, *others = (operand.shape for operand in operands)
    different = next((shape for shape in others if shape != first), None)
    return None if different is None else f"the shapes {list(first)} and {list(different)} of its inputs must be equal"


def equal_shapes_of_a_rank(op: OpView, operands: Sequence[Any]) -> str | None:
    """Of two operands, if they have the same rank."""
    x, y = operands
    return equal_shapes(op, operands) if len(x.shape) == len(y.shape) else None


def equal_sizes(_: OpView, operands: Sequence[Any]) -> str | None:
    """As many elements of all operands."""
    first, *others = (operand.shape for operand in operands)
    different = next((shape for shape in others if prod(shape) != prod(first)), None)
    if different is None:
        return None
    return f"its inputs must have as many elements, not the shapes {list(first)} and {list(different)}"


def equal_sizes_of_every_second(op: OpView, operands: Sequence[Any]) -> str | None:
    """As many elements of all lengths, which alternate with values."""
    return equal_sizes(op, operands[::2])


def same_rows(_: OpView, operands: Sequence[Any]) -> str | None:
    """As many rows of all operands."""
    first, *others = (operand.shape for operand in operands)
    different = next((shape for shape in others if shape[:1] != first[:1]), None)
    if different is None:
        return None
    return f"its inputs must have as many rows, not {list(first)} and {list(different)}"


def condition(op: OpView, operands: Sequence[Any]) -> str | None:
    """Of a selection, by element or, as an argument says, by row."""
    return (same_rows if op.args.flag("broadcast_on_rows", default=False) else equal_shapes)(op, operands)


def broadcast(op: OpView, operands: Sequence[Any]) -> str | None:
    """Where Caffe2 broadcasts by an argument, sizes of 1 in the first operand are not repeated."""
    a, b = (operand.shape for operand in operands)
    if not op.args.flag("broadcast", default=False) or "axis_str" in op.args or len(b) > len(a) or prod(b) == 1:
        return None
    axis = op.args.integer("axis", default=-1)
    start = len(a) - len(b) if axis == -1 else axis
    sizes = [(have, want) for have, want in zip(a[start:], b, strict=False)]
    while sizes and sizes[0][1] == 1:
        del sizes[0]
    while sizes and sizes[-1][1] == 1:
        del sizes[-1]
    if all(have == want for have, want in sizes):
        return None
    return f"the shape {list(b)} must be that of the axes from {start} of the first input, {list(a)}"


def bias(op: OpView, operands: Sequence[Any]) -> str | None:
    """Of a layer with such weights [out, in], or [in, out] if it is transposed."""
    weights, found = operands
    if len(weights.shape) != 2 or op.args.integer("axis_w", default=1) != 1:
        return None
    size = weights.shape[1 if op.type == "FCTransposed" else 0]
    return None if found.shape == (size,) else f"the bias must have the shape [{size}], not {list(found.shape)}"


def linear(op: OpView, operands: Sequence[Any]) -> str | None:
    """Weights and bias of a layer of a feature each."""
    x, weights, found = (operand.shape for operand in operands)
    size = prod(x[op.args.integer("axis", default=1) :])
    if weights == found == (size,):
        return None
    return f"the weights and the bias must have the shape [{size}], not {list(weights)} and {list(found)}"


def equal_parts(op: OpView, operands: Sequence[Any]) -> str | None:
    """Of an axis that is split without sizes."""
    shape, count = operands[0].shape, len(op.outputs)
    axis = op.args.integer("axis", default=3 if op.args.text("order", default="") == "NHWC" else 1)
    if len(op.inputs) > 1 or "split" in op.args or not -len(shape) <= axis < len(shape) or shape[axis] % count == 0:
        return None
    return f"the size of axis {axis} ({shape[axis]}) must be a multiple of the number of outputs ({count})"


def element_of_rows(_: OpView, operands: Sequence[Any]) -> str | None:
    """A default value that fills rows of values."""
    values, default = (operand.shape for operand in operands)
    return None if values[1:] == default else f"the default must have the shape {list(values[1:])}, not {list(default)}"


def ranges(op: OpView, operands: Sequence[Any]) -> str | None:
    """[rows, outputs, 2]."""
    shape = operands[0].shape
    if len(shape) == 3 and shape[1:] == (len(op.outputs), 2):
        return None
    return f"the ranges must have the shape [rows, {len(op.outputs)}, 2], not {list(shape)}"


def packed(op: OpView, operands: Sequence[Any]) -> str | None:
    """Segments [segments, length, ...] of a length that the argument says."""
    shape, length = operands[0].shape, op.args.integer("max_length", default=-1)
    if length < 0 or len(shape) < 2 or shape[1] == length:
        return None
    return f"dim 1 of the segments must be max_length ({length}), not {shape[1]}"
