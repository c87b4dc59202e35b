"""The range of each row that few codes fit best, as Caffe2's engine GREEDY searches for it."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, square, sub
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value

# The range is cut into steps; the search takes one away after the other, until so many are left.
_STEPS: Final = 200
_LEFT: Final = 168


def as_half(op: Op, x: Value) -> Value:
    """Floats rounded to what a half can hold."""
    return cast(op, cast(op, x, ir.DataType.FLOAT16), ir.DataType.FLOAT)


def narrowed_range(op: Op, x: Value, least: Value, greatest: Value, most: int) -> tuple[Value, Value]:
    """The best range that the search meets from ``least`` to ``greatest`` on, both [..., 1], for codes 0 to ``most``.

    Each turn gives up the step at the end of the range where the codes then fit better. What counts is a range that
    fits better than both that follow it, and than all such before it.
    """
    step = div(op, sub(op, greatest, least), float(_STEPS))
    shortest = mul(op, step, float(_LEFT))
    loss = _loss(op, x, least, greatest, most)

    def turn(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        low, high, here, best, best_low, best_high = states
        goes_on = inside.emit("Less", add(inside, low, shortest), high)
        raised, lowered = add(inside, low, step), sub(inside, high, step)
        loss_raised, loss_lowered = _loss(inside, x, raised, high, most), _loss(inside, x, low, lowered, most)
        fits = goes_on
        for other in (loss_raised, loss_lowered, best):
            fits = inside.emit("And", fits, inside.emit("Less", here, other))
        raise_low = inside.emit("And", goes_on, inside.emit("Less", loss_raised, loss_lowered))
        lower_high = inside.emit("And", goes_on, inside.emit("Not", raise_low))
        after = inside.emit("Where", raise_low, loss_raised, inside.emit("Where", lower_high, loss_lowered, here))
        return [
            inside.emit("Where", raise_low, raised, low),
            inside.emit("Where", lower_high, lowered, high),
            after,
            *(inside.emit("Where", fits, a, b) for a, b in ((here, best), (low, best_low), (high, best_high))),
        ], []

    # One more turn than steps given up, for what rounding makes of the steps.
    turns = _STEPS - _LEFT + 1
    finals, _ = loop(op, turns, None, [least, greatest, loss, loss, least, greatest], turn)
    return finals[4], finals[5]


def _loss(op: Op, x: Value, least: Value, greatest: Value, most: int) -> Value:
    """How far rows are from what their codes stand for, [..., 1]."""
    least = as_half(op, least)
    spread = sub(op, greatest, least)
    flat = op.emit("Equal", spread, op.const(0.0, x))
    scale = op.emit("Where", flat, op.const(1.0, x), as_half(op, div(op, spread, float(most))))
    codes = op.emit("Round", mul(op, sub(op, x, least), op.emit("Reciprocal", scale)))
    codes = op.emit("Clip", codes, op.const(0.0, x), op.const(float(most), x))
    error = sub(op, x, add(op, mul(op, codes, scale), least))
    axis = op.const([op.rank(x) - 1], np.int64)
    return op.emit("Sqrt", op.emit("ReduceSum", square(op, error), axis, keepdims=1))
