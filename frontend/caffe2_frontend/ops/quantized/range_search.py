"""The greedy search of Caffe2's engine GREEDY for the range of each row that a few codes approximate best."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, square, sub
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value

# The range is divided into steps, of which the search gives up one per iteration until this many are left.
_STEPS: Final = 200
_STEPS_LEFT: Final = 168


def as_half(op: Op, x: Value) -> Value:
    """Round floats to float16 precision."""
    return cast(op, cast(op, x, ir.DataType.FLOAT16), ir.DataType.FLOAT)


def inverse_of(op: Op, scale: Value) -> Value:
    """Return ``1 / scale``; 0 for a scale of 0, so that all codes are 0.

    Small scales become 0 as float16. Caffe2 then casts infinities to integers, which leaves 0.
    """
    inverse = op.emit("Reciprocal", scale)
    return op.emit("Where", op.emit("IsInf", inverse), op.const(0.0, scale), inverse)


def narrowed_range(op: Op, x: Value, minimum: Value, maximum: Value, largest_code: int) -> tuple[Value, Value]:
    """Return the best range that the search finds within [``minimum``, ``maximum``], both [..., 1].

    Each iteration shrinks the range by one step at the end where the loss of codes 0 to ``largest_code`` is then lower.
    The result is the local minimum of the loss (below both of its successors) of the lowest loss.
    """
    step = div(op, sub(op, maximum, minimum), float(_STEPS))
    shortest = mul(op, step, float(_STEPS_LEFT))
    loss = _loss(op, x, minimum, maximum, largest_code)

    def shrink(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        low, high, here, best, best_low, best_high = states
        active = inside.emit("Less", add(inside, low, shortest), high)
        raised, lowered = add(inside, low, step), sub(inside, high, step)
        loss_raised, loss_lowered = (
            _loss(inside, x, raised, high, largest_code),
            _loss(inside, x, low, lowered, largest_code),
        )
        improves = active
        for other in (loss_raised, loss_lowered, best):
            improves = inside.emit("And", improves, inside.emit("Less", here, other))
        raise_low = inside.emit("And", active, inside.emit("Less", loss_raised, loss_lowered))
        lower_high = inside.emit("And", active, inside.emit("Not", raise_low))
        after = inside.emit("Where", raise_low, loss_raised, inside.emit("Where", lower_high, loss_lowered, here))
        return [
            inside.emit("Where", raise_low, raised, low),
            inside.emit("Where", lower_high, lowered, high),
            after,
            *(inside.emit("Where", improves, a, b) for a, b in ((here, best), (low, best_low), (high, best_high))),
        ], []

    # One more iteration than steps to give up, as the steps are rounded.
    iterations = _STEPS - _STEPS_LEFT + 1
    finals, _ = loop(op, iterations, None, [minimum, maximum, loss, loss, minimum, maximum], shrink)
    return finals[4], finals[5]


def _loss(op: Op, x: Value, minimum: Value, maximum: Value, largest_code: int) -> Value:
    """Return the Euclidean distance between rows and their dequantized codes, [..., 1]."""
    minimum = as_half(op, minimum)
    spread = sub(op, maximum, minimum)
    flat = op.emit("Equal", spread, op.const(0.0, x))
    scale = op.emit("Where", flat, op.const(1.0, x), as_half(op, div(op, spread, float(largest_code))))
    codes = op.emit("Round", mul(op, sub(op, x, minimum), inverse_of(op, scale)))
    codes = op.emit("Clip", codes, op.const(0.0, x), op.const(float(largest_code), x))
    error = sub(op, x, add(op, mul(op, codes, scale), minimum))
    axis = op.const([op.rank(x) - 1], np.int64)
    return op.emit("Sqrt", op.emit("ReduceSum", square(op, error), axis, keepdims=1))
