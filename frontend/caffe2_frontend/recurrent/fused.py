"""Emission of a recognized cell as ONNX's LSTM, GRU or RNN operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import Size, size, size_vector, squeeze, transpose_matrix, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.algebra import WHOLE
from caffe2_frontend.recurrent.match import Affine, Cell, Columns, NoMatchError


@dataclass(frozen=True)
class Projection:
    """The input of a fused operator: X, [T, N, I], each gate's columns of the matrix that it is multiplied by, biases.

    X is the sum of ``sequences``: values, or rows of other cells' outputs, which are emitted first. ``columns`` is None
    where X is what the gates add: the matrix is then the identity.
    """

    sequences: tuple[Value, ...]
    columns: tuple[Columns, ...] | None
    biases: tuple[tuple[Columns, ...], ...]


@dataclass(frozen=True)
class Fused:
    """A state after the fused operator: the rows of all steps (None where ONNX does not give them), and the last."""

    steps: Value | None
    last: Value


def hidden_size(cell: Cell) -> int:
    """The number of features of the state. Raises NoMatchError where it is not static: ONNX requires an attribute."""
    matrix = cell.gates[0].recurrent.value
    width = matrix.shape[0] if matrix.shape is not None else None
    if not isinstance(width, int):
        raise NoMatchError("the hidden size is not known: ONNX's recurrent operators need it as a number")
    return width


def projection(body: Body, cell: Cell) -> Projection:
    """The common input of the gates. Raises NoMatchError where they have different inputs."""
    gates = cell.gates
    sequence = dict(zip(body.rows, body.sequences, strict=True))
    biases = tuple(gate.biases for gate in gates)
    if all(len(gate.inputs) == 1 and not gate.rows for gate in gates):
        operands = {gate.inputs[0][0] for gate in gates}
        if len(operands) == 1:
            rows = sorted(operands.pop(), key=lambda row: str(row.name))
            columns = tuple(gate.inputs[0][1] for gate in gates)
            return Projection(tuple(sequence.get(row, row) for row in rows), columns, biases)
    elif all(len(gate.rows) == 1 and not gate.inputs for gate in gates):
        values = {gate.rows[0].value for gate in gates}
        if len(values) == 1:
            row = values.pop()
            return _before_the_loop(sequence.get(row, row), gates, biases)
    raise NoMatchError("the gates take their input from several sequences, or in several ways")


def _before_the_loop(
    gates_input: Value, gates: Sequence[Affine], biases: tuple[tuple[Columns, ...], ...]
) -> Projection:
    """The operand of the matrix product before the loop that computes the sequence, or the sequence itself."""
    parts = [gate.rows[0].part for gate in gates]
    product, bias = _added_bias(gates_input)
    node = product.producer()
    if node is None or node.op_type != "MatMul":
        if any(width != Fraction(1, len(parts)) for width in (b - a for a, b in parts)):
            raise NoMatchError("the gates use parts of the input that overlap or leave some of it out")
        return Projection((gates_input,), None, biases)
    x, matrix = node.inputs
    if x is None or matrix is None or matrix.shape is None or len(matrix.shape) != 2:
        raise NoMatchError("the input's projection is no product with a matrix")
    if bias is not None:
        biases = tuple((*own, Columns(bias, part)) for own, part in zip(biases, parts, strict=True))
    return Projection((x,), tuple(Columns(matrix, part) for part in parts), biases)


def _added_bias(value: Value) -> tuple[Value, Value | None]:
    node = value.producer()
    if node is None or node.op_type != "Add":
        return value, None
    a, b = node.inputs
    if a is not None and b is not None and b.shape is not None and len(b.shape) == 1:
        return a, b
    return value, None


def emit_fused(
    op: Op, body: Body, cell: Cell, source: Projection, outputs: Mapping[Value, Value], steps: Size
) -> dict[int, Fused]:
    """Emit the operator; what becomes of the cell's states, by their position among the body's.

    ``outputs`` are the steps of the cells emitted before, [T, N, D], by the row that stands for them.
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
    lengths = None if cell.lengths is None else _clipped(op, cell.lengths, steps)
    # onnxruntime's GRU aborts the process on a sequence of no steps, unless it is given lengths.
    given = _all_steps(op, initial[0], steps) if lengths is None and cell.kind == "GRU" else lengths
    emitted = op.emit(
        cell.kind,
        x,
        unsqueeze(op, weight, [0]),
        unsqueeze(op, recurrent, [0]),
        unsqueeze(op, bias, [0]),
        given,
        *initial,
        outputs=2 if len(initial) == 1 else 3,
        hidden_size=width,
        activations=[cell.activation] if cell.kind == "RNN" else None,
        linear_before_reset=1 if cell.linear_before_reset else None,
    )
    y, finals = squeeze(op, emitted[0], [1]), emitted[1:]
    results = _with_padding(op, cell, y, finals, initial, lengths, steps)
    return dict(zip(cell.states, results, strict=True))


def _with_padding(
    op: Op,
    cell: Cell,
    y: Value,
    finals: Sequence[Value],
    initial: Sequence[Value],
    lengths: Value | None,
    steps: Size,
) -> list[Fused]:
    """The states as Caffe2 leaves them in rows shorter than the sequence.

    ONNX gives zeros past a row's length, and as final state the one at its length. With ``drop`` Caffe2 gives zeros
    too, and the final state is zero as well. Without it the last state is repeated. After no steps at all the final
    state is the initial one.
    """
    if lengths is None:
        lasts = [_unless_empty(op, steps, final, start) for final, start in zip(finals, initial, strict=True)]
        return [Fused(y if i == 0 else None, last) for i, last in enumerate(lasts)]
    some = unsqueeze(op, op.emit("Greater", lengths, op.const(0, np.int32)), [1])
    lasts = [op.emit("Where", some, final, start) for final, start in zip(finals, initial, strict=True)]
    if cell.drop:
        whole = unsqueeze(op, op.emit("Equal", lengths, _steps_int32(op, steps)), [1])
        lasts = [op.emit("Where", whole, last, op.const(0.0, last)) for last in lasts]
        return [Fused(y if i == 0 else None, last) for i, last in enumerate(lasts)]
    number = op.emit("Range", op.const(0, np.int32), _steps_int32(op, steps), op.const(1, np.int32), shape=[None])
    valid = op.emit("Less", unsqueeze(op, number, [1]), lengths)
    repeated = op.emit("Where", unsqueeze(op, valid, [2]), y, lasts[0])
    return [Fused(repeated if i == 0 else None, last) for i, last in enumerate(lasts)]


def _unless_empty(op: Op, steps: Size, final: Value, start: Value) -> Value:
    """The final state; the initial one if there are no steps, for which onnxruntime returns zeros."""
    if isinstance(steps, int):
        return final if steps else start
    return op.emit("Where", op.emit("Greater", steps, op.const([0], np.int64)), final, start)


def _steps_int32(op: Op, steps: Size) -> Value:
    if isinstance(steps, int):
        return op.const(steps, np.int32)
    return op.emit("Cast", op.emit("Squeeze", steps), to=int(ir.DataType.INT32))


def _clipped(op: Op, lengths: Value, steps: Size) -> Value:
    """Lengths clipped to [0, T], as ONNX requires; Caffe2 treats longer and negative lengths as the clipped ones."""
    lengths = op.emit("Cast", lengths, to=int(ir.DataType.INT32)) if op.dtype(lengths) != ir.DataType.INT32 else lengths
    return op.emit("Min", op.emit("Max", lengths, op.const(0, np.int32)), _steps_int32(op, steps))


def _all_steps(op: Op, state: Value, steps: Size) -> Value:
    """T for each element of the batch, int32 [N]."""
    return op.emit("Expand", _steps_int32(op, steps), size_vector(op, state, 1))


def _stack_columns(op: Op, columns: Sequence[Columns]) -> Value:
    """The columns of all gates, transposed and concatenated along axis 0."""
    return _stack(op, [Columns(transpose_matrix(op, c.value), c.part) for c in columns])


def _stack(op: Op, parts: Sequence[Columns]) -> Value:
    """Ranges of the first axis, concatenated along it."""
    first = parts[0].value
    if all(p.value is first for p in parts) and _tile(parts):
        return first
    pieces = [_piece(op, part) for part in parts]
    return pieces[0] if len(pieces) == 1 else op.emit("Concat", *pieces, axis=0)


def _tile(parts: Sequence[Columns]) -> bool:
    ends = [Fraction(0), *(p.part[1] for p in parts)]
    return [p.part[0] for p in parts] == ends[:-1] and ends[-1] == 1


def _piece(op: Op, part: Columns) -> Value:
    start, end = part.part
    if part.part == WHOLE:
        return part.value
    count = 1 / (end - start)
    if count.denominator != 1 or (start * count).denominator != 1:
        raise NoMatchError("a gate uses an uneven part of a matrix")
    pieces = op.emit("Split", part.value, axis=0, num_outputs=int(count), outputs=int(count))
    assert isinstance(pieces, tuple)
    return pieces[int(start * count)]


def _identity(op: Op, x: Value, rows: Sequence[Columns]) -> Value:
    """The matrix that picks the gates' parts of the input in order."""
    width = size(op, x, -1)
    square = op.emit("ConstantOfShape", vector(op, [width, width]), value=ir.tensor(np.zeros(1, np.float32)))
    return _stack(op, [Columns(op.emit("EyeLike", square), row.part) for row in rows])


def _biases(op: Op, cell: Cell, source: Projection, width: int) -> Value:
    """Biases of the input products, then of the recurrent products."""
    zero = op.const(np.zeros(width, np.float32))
    inputs = [_bias(op, biases, gate.constant, zero) for gate, biases in zip(cell.gates, source.biases, strict=True)]
    recurrent = [_bias(op, gate.recurrent_biases, 0.0, zero) for gate in cell.gates]
    return op.emit("Concat", *inputs, *recurrent, axis=0)


def _bias(op: Op, columns: Sequence[Columns], constant: float, zero: Value) -> Value:
    total: Value | None = op.const(np.full(zero.shape.numpy(), constant, np.float32)) if constant else None  # type: ignore[union-attr] # a constant has a shape
    for part in columns:
        piece = _piece(op, part)
        total = piece if total is None else op.emit("Add", total, piece)
    return zero if total is None else total
