"""Emit a recognized cell as ONNX's LSTM, GRU or RNN operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.cells.algebra import WHOLE
from caffe2_bridge.cells.match import Cell, Columns, NoMatchError
from caffe2_bridge.cells.projection import Hoisted, Projection, find_projection
from caffe2_frontend.emit.shapes import Size, cast, size, size_vector, squeeze, transpose_matrix, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.interop.constants import is_part_of_zeros
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.options import NO_LENGTHS
from caffe2_frontend.recurrent.padding import (
    count_valid,
    counts_steps,
    freeze_cell_state,
    mask_padding,
    steps_int32,
    valid_steps,
)

# In the metadata of sequence lengths: all are T.
ALL_STEPS: Final = "caffe2_bridge.all_steps"


@dataclass(frozen=True)
class Fused:
    """A state after the fused operator: the rows of all steps (None if ONNX does not output them), and the last one."""

    steps: Value | None
    last: Value


def hidden_size(cell: Cell[Value]) -> int:
    """Return the number of features of the state. Raises NoMatchError if it is not static."""
    matrix = cell.gates[0].recurrent.value
    width = matrix.shape[0] if matrix.shape is not None else None
    if not isinstance(width, int):
        raise NoMatchError("the hidden size must be static: it is an attribute of ONNX's recurrent operators")
    return width


def projection(body: Body, cell: Cell[Value]) -> Projection[Value]:
    """Return the common input of the gates. Raises NoMatchError if they have different inputs."""
    return find_projection(cell, dict(zip(body.rows, body.sequences, strict=True)), _hoisted)


def _hoisted(sequence: Value) -> Hoisted[Value] | None:
    """Find the product with a matrix that the sequence is; None where another node makes it."""
    product, bias = _added_bias(sequence)
    node = product.producer()
    if node is None or node.op_type != "MatMul":
        return None
    x, matrix = node.inputs
    if x is None or matrix is None or matrix.shape is None or len(matrix.shape) != 2:
        raise NoMatchError("the input must be projected by a product with a matrix")
    return Hoisted(x, matrix, bias)


def _added_bias(value: Value) -> tuple[Value, Value | None]:
    """Split the addition of a vector off a value; None if there is not one."""
    node = value.producer()
    if node is None or node.op_type != "Add":
        return value, None
    a, b = node.inputs
    if a is not None and b is not None and b.shape is not None and len(b.shape) == 1:
        return a, b
    return value, None


def emit_fused(
    op: Op,
    body: Body,
    cell: Cell[Value],
    source: Projection[Value],
    outputs: Mapping[Value, Value],
    steps: Size,
    *,
    keeps_cell_state: bool,
) -> dict[int, Fused]:
    """Emit the fused operator of a cell.

    Args:
        op: the operator under conversion.
        body: the body of the loop that it replaces.
        cell: the cell.
        source: the cell's input.
        outputs: the outputs [T, N, D] of the cells that are already emitted, by the row that stands for each.
        steps: T.
        keeps_cell_state: whether the cell state after the last step is read.

    Returns:
        The cell's states, by their index among the states of the body.
    """
    width = hidden_size(cell)
    x, *others = (outputs.get(sequence, sequence) for sequence in source.sequences)
    for other in others:
        x = op.emit("Add", x, other)
    if source.columns is None:
        weight = _identity(op, x, [gate.rows[0] for gate in cell.gates])
    else:
        weight = _stack_columns(op, source.columns)
    recurrent = _stack_columns(op, [gate.recurrent for gate in cell.gates])
    bias = _biases(op, cell, source, width)
    initial = [body.initial[i] for i in cell.states]
    is_zero = [_is_zero(op, value) for value in initial]
    masked = op.lowering.recurrent in NO_LENGTHS
    full = cell.lengths is None or op.lowering.full_lengths
    lengths = None if full or cell.lengths is None else cast(op, cell.lengths, ir.DataType.INT32)
    valid = valid_steps(op, lengths, steps) if masked and lengths is not None else None
    if valid is not None and counts_steps(op, steps):
        lengths = count_valid(op, valid)
    elif lengths is not None:
        lengths = _clipped(op, lengths, steps)
    if valid is not None and keeps_cell_state and not cell.drop:
        x, weight = freeze_cell_state(op, x, weight, valid, width)
    # Without sequence lengths, onnxruntime's GRU aborts the process on a sequence without steps.
    given = _all_steps(op, x, steps) if lengths is None and cell.kind == "GRU" else lengths
    emitted = op.emit(
        cell.kind,
        x,
        unsqueeze(op, weight, [0]),
        unsqueeze(op, recurrent, [0]),
        unsqueeze(op, bias, [0]),
        None if masked else given,
        *(None if zero else value for zero, value in zip(is_zero, initial, strict=True)),
        outputs=2 if len(initial) == 1 else 3,
        hidden_size=width,
        activations=[cell.activation] if cell.kind == "RNN" else None,
        linear_before_reset=1 if cell.linear_before_reset else None,
    )
    y, finals = squeeze(op, emitted[0], [1]), emitted[1:]
    if lengths is None:
        starts = [None if zero else value for zero, value in zip(is_zero, initial, strict=True)]
        if op.lowering.recurrent != "portable":
            finals = tuple(_unless_empty(op, steps, a, b) for a, b in zip(finals, starts, strict=True))
        results = [Fused(y if i == 0 else None, last) for i, last in enumerate(finals)]
    elif valid is not None:
        results = [Fused(*pair) for pair in mask_padding(op, cell, y, finals, initial, lengths, valid, steps)]
    else:
        results = _with_padding(op, cell, y, finals, initial, lengths, steps)
    return dict(zip(cell.states, results, strict=True))


def _is_zero(op: Op, value: Value) -> bool:
    """Whether a state is known to be zeros."""
    if not is_part_of_zeros(value):
        return False
    op.looks_behind(value)
    return True


def _with_padding(
    op: Op,
    cell: Cell[Value],
    y: Value,
    finals: Sequence[Value],
    initial: Sequence[Value],
    lengths: Value,
    steps: Size,
) -> list[Fused]:
    """Set the states after the end of sequences that are shorter than T as Caffe2 does.

    ONNX outputs zeros after the end of a sequence, and the state at its end as the final state. Caffe2 outputs zeros
    with ``drop``, also as the final state, and repeats the last state otherwise.
    """
    some = unsqueeze(op, op.emit("Greater", lengths, op.const(0, np.int32)), [1])
    lasts = [op.emit("Where", some, final, start) for final, start in zip(finals, initial, strict=True)]
    if cell.drop:
        whole = unsqueeze(op, op.emit("Equal", lengths, steps_int32(op, steps)), [1])
        lasts = [op.emit("Where", whole, last, op.const(0.0, last)) for last in lasts]
        return [Fused(y if i == 0 else None, last) for i, last in enumerate(lasts)]
    repeated = op.emit("Where", valid_steps(op, lengths, steps), y, lasts[0])
    return [Fused(repeated if i == 0 else None, last) for i, last in enumerate(lasts)]


def _unless_empty(op: Op, steps: Size, final: Value, start: Value | None) -> Value:
    """Select the final state, or the initial one if T is 0, for which onnxruntime outputs zeros; None is zeros."""
    if start is None or isinstance(steps, int):
        return final if start is None or steps else start
    return op.emit("Where", op.emit("Greater", steps, op.const([0], np.int64)), final, start)


def _clipped(op: Op, lengths: Value, steps: Size) -> Value:
    """Clip lengths to [0, T], as ONNX requires; Caffe2 treats other lengths like the clipped ones."""
    return op.emit("Min", op.emit("Max", lengths, op.const(0, np.int32)), steps_int32(op, steps))


def _all_steps(op: Op, state: Value, steps: Size) -> Value:
    """Repeat T for each element of the batch, int32 [N]."""
    lengths: Value = op.emit("Expand", steps_int32(op, steps), size_vector(op, state, 1))
    lengths.meta[ALL_STEPS] = True
    return lengths


def _stack_columns(op: Op, columns: Sequence[Columns[Value]]) -> Value:
    """Transpose the columns of all gates and concatenate them along axis 0."""
    return _stack(op, [Columns(transpose_matrix(op, c.value), c.part) for c in columns])


def _stack(op: Op, parts: Sequence[Columns[Value]]) -> Value:
    """Concatenate ranges of axis 0; the value itself if they are all of it, in order."""
    first = parts[0].value
    if all(p.value is first for p in parts) and _are_contiguous(parts):
        return first
    pieces = [_piece(op, part) for part in parts]
    return pieces[0] if len(pieces) == 1 else op.emit("Concat", *pieces, axis=0)


def _are_contiguous(parts: Sequence[Columns[Value]]) -> bool:
    """Return whether ranges follow one another from the start to the end of the axis."""
    ends = [Fraction(0), *(p.part[1] for p in parts)]
    return [p.part[0] for p in parts] == ends[:-1] and ends[-1] == 1


def _piece(op: Op, part: Columns[Value]) -> Value:
    start, end = part.part
    if part.part == WHOLE:
        return part.value
    count = 1 / (end - start)
    if count.denominator != 1 or (start * count).denominator != 1:
        raise NoMatchError("each gate must use one of several equal parts of a matrix")
    pieces = op.emit("Split", part.value, axis=0, num_outputs=int(count), outputs=int(count))
    assert isinstance(pieces, tuple)
    return pieces[int(start * count)]


def _identity(op: Op, x: Value, rows: Sequence[Columns[Value]]) -> Value:
    """Emit the matrix that selects the gates' parts of the input in order."""
    width = size(op, x, -1)
    square = op.emit("ConstantOfShape", vector(op, [width, width]), value=ir.Tensor(np.zeros(1, np.float32)))
    return _stack(op, [Columns(op.emit("EyeLike", square), row.part) for row in rows])


def _biases(op: Op, cell: Cell[Value], source: Projection[Value], width: int) -> Value:
    """Concatenate the biases of the input products and of the recurrent products."""
    zero = op.const(np.zeros(width, np.float32))
    inputs = [_bias(op, biases, gate.constant, zero) for gate, biases in zip(cell.gates, source.biases, strict=True)]
    recurrent = [_bias(op, gate.recurrent_biases, 0.0, zero) for gate in cell.gates]
    return op.emit("Concat", *inputs, *recurrent, axis=0)


def _bias(op: Op, columns: Sequence[Columns[Value]], constant: float, zero: Value) -> Value:
    total: Value | None = op.const(np.full(zero.shape.numpy(), constant, np.float32)) if constant else None  # type: ignore[union-attr] # a constant has a shape
    for part in columns:
        piece = _piece(op, part)
        total = piece if total is None else op.emit("Add", total, piece)
    return zero if total is None else total
