"""Sequence lengths without the operand ``sequence_lens`` of ONNX's recurrent operators, which few runtimes read.

A forward operator runs all T steps of all rows. Later steps do not change earlier ones, so that the state at the end of
a row is that of the step before its length, and what comes after it is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.cells.match import Cell
from caffe2_frontend.emit.shapes import Size, unsqueeze
from caffe2_frontend.lowering.op import Op, Value

# Added to the operand of a gate, it gives 0 or 1 whatever else is added.
_SATURATING: Final = 1e4


def steps_int32(op: Op, steps: Size) -> Value:
    """Return T as an int32 scalar."""
    if isinstance(steps, int):
        return op.const(steps, np.int32)
    return op.emit("Cast", op.emit("Squeeze", steps), to=int(ir.DataType.INT32))


def valid_steps(op: Op, lengths: Value, steps: Size) -> Value:
    """Whether each step is within the length of each row, bool [T, N, 1]."""
    number = op.emit("Range", op.const(0, np.int32), steps_int32(op, steps), op.const(1, np.int32), shape=[None])
    return unsqueeze(op, op.emit("Less", unsqueeze(op, number, [1]), lengths), [2])


def counts_steps(op: Op, steps: Size) -> bool:
    """Whether steps are counted by their flags: T is not known, and the form is not that of other runtimes."""
    return not isinstance(steps, int) and op.lowering.recurrent != "portable"


def count_valid(op: Op, valid: Value) -> Value:
    """Clip lengths to [0, T], int32 [N], by counting: T is computed on the host, and would be copied to a GPU."""
    return _count(op, op.emit("Squeeze", valid, op.const([2], np.int64)), [0])


def freeze_cell_state(op: Op, x: Value, weight: Value, valid: Value, width: int) -> tuple[Value, Value]:
    """Extend the input [T, N, I] and the weights [4H, I] of an LSTM, so that c stays what it is past the end of a row.

    ONNX outputs c after T steps alone. One more input, 0 within a row and 1 past its end, closes the input gate and
    opens the forget gate: c' = 1 * c + 0 * g. The others are 0 there, so that no infinity in the padding is added.

    Returns:
        The input [T, N, I + 1] and the weights [4H, I + 1].
    """
    past = op.emit("Where", valid, op.const(0.0, x), op.const(1.0, x))
    x = op.emit("Concat", op.emit("Where", valid, x, op.const(0.0, x)), past, axis=2)
    gates = np.repeat([-_SATURATING, 0.0, _SATURATING, 0.0], width)  # in ONNX's order: i, o, f, c
    column = op.const(gates.reshape(-1, 1), weight)
    return x, op.emit("Concat", weight, column, axis=1)


def mask_padding(
    op: Op,
    cell: Cell[Value],
    y: Value,
    finals: Sequence[Value],
    initial: Sequence[Value],
    lengths: Value,
    valid: Value,
    steps: Size,
) -> list[tuple[Value | None, Value]]:
    """Set the states after the end of rows as Caffe2 does: zeros with ``drop``, also as the final state, else the last.

    Args:
        op: the operator under conversion.
        cell: the cell.
        y: the rows of h of all steps, [T, N, H], past the end of rows too.
        finals: the states after T steps, [1, N, H]; that of c is the state at the end of each row, unless ``drop``.
        initial: the states before the first step, [1, N, H].
        lengths: int32 [N], from 0 to T.
        valid: whether each step is within the length of each row, bool [T, N, 1].
        steps: T.

    Returns:
        For each state its rows of all steps, None for c, and the final one.
    """
    if cell.drop:
        zero = op.const(0.0, y)
        if counts_steps(op, steps):
            whole = op.emit("Equal", _count(op, op.emit("Not", valid), [0, 2]), op.const(0, np.int32))
        else:
            whole = op.emit("Equal", lengths, steps_int32(op, steps))
        whole = unsqueeze(op, whole, [1])
        lasts = [op.emit("Where", whole, final, zero) for final in finals]
        rows = op.emit("Where", valid, y, zero)
    else:
        states = op.emit("Concat", initial[0], y, axis=0)
        index = unsqueeze(op, op.emit("Cast", lengths, to=int(ir.DataType.INT64)), [0, 2])
        width = op.shape(y)[2]
        assert isinstance(width, int)
        index = op.emit("Expand", index, op.const([1, 1, width], np.int64))
        last = op.emit("GatherElements", states, index, axis=0)
        lasts = [last, *finals[1:]]
        if steps == 0 or counts_steps(op, steps):  # without steps, onnxruntime outputs zeros for c
            some = unsqueeze(op, op.emit("Greater", lengths, op.const(0, np.int32)), [1])
            lasts[1:] = [op.emit("Where", some, c, c0) for c, c0 in zip(finals[1:], initial[1:], strict=True)]
        rows = op.emit("Where", valid, y, last)
    return [(rows if i == 0 else None, last) for i, last in enumerate(lasts)]


def _count(op: Op, flags: Value, axes: Sequence[int]) -> Value:
    """Count flags that are set along axes, int32."""
    numbers = op.emit("Cast", flags, to=int(ir.DataType.INT32))
    counted: Value = op.emit("ReduceSum", numbers, op.const(list(axes), np.int64), keepdims=0)
    return counted
