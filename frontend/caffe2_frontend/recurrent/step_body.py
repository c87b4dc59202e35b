"""Emit what Scan and Loop share: initial states, input sequences and the step net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_bridge.control import Link, RecurrentSpec
from caffe2_bridge.netdef.nested import operators_in
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.emit.shapes import Size, size, unsqueeze, vector
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True)
class Rows:
    """A state after the loop: its initial row [1, N, D], the rows of all steps [T, N, D], the last row [1, N, D].

    ``steps`` is None if they are not read, or the form of the loop does not compute them.
    """

    initial: Value
    steps: Value | None
    last: Value


@dataclass(frozen=True)
class Operands:
    """The operands of a loop: the initial row of each state, the sequences, and the number of steps."""

    initial: dict[str, Value]
    sequences: dict[str, Value]
    steps: Size


def read_operands(op: Op, spec: RecurrentSpec) -> Operands:
    """Emit the initial states as rows, and the sequences, from the operands and the linked blobs."""
    first = op.input(0)
    if op.rank(first) < 2:
        op.unsupported(
            f"the input sequence must have rank 2 or more, [T, N, ...], not {op.rank(first)}", code="invalid-operands"
        )
    _record_dims(op, first, [op.input(state.initial) for state in spec.states])
    steps = size(op, first, 0)
    initial = {state.blob: initial_row(op, op.input(state.initial), first) for state in spec.states}
    sequences = {link.internal: emit_sequence(op, link, steps) for link in spec.reads() if link.external not in initial}
    if _reads(spec.step_net, spec.timestep):
        sequences[spec.timestep] = emit_timesteps(op, steps)
    return Operands(initial, sequences, steps)


def _record_dims(op: Op, first: Value, initial: Sequence[Value]) -> None:
    """Record that the input is [T, N, ...], and an initial state of rank 2 or 3 [..., N, D]: Caffe2 requires it."""
    batch = op.shape(first)[1]
    op.dims.name(op.shape(first)[0], "T")
    op.dims.name(batch, "N")
    for value in initial:
        if value.shape is not None and 2 <= len(value.shape) <= 3:
            op.dims.equate(value.shape[-2], batch)


def lower_step(op: Op, spec: RecurrentSpec, rows: Mapping[str, Value], slices: Mapping[str, Value]) -> list[Value]:
    """Lower the step net into a body.

    Args:
        op: the operator inside the body.
        spec: the recurrent net.
        rows: the states before the step, [1, N, D].
        slices: the row of each sequence at the step, [N, ...].

    Returns:
        The states after the step.
    """
    for link in spec.reads():
        if link.external in rows:
            op.scope.bind(link.internal, rows[link.external])
    for name, row in slices.items():
        op.scope.bind(name, unsqueeze(op, row, [0]))
    op.lower_body(spec.step_net, op.scope, spec.argument)
    writers = {link.external: link.internal for link in spec.writes()}
    after: list[Value] = []
    for state in spec.states:
        internal = writers.get(state.blob)
        value: Value | None = rows[state.blob] if internal is None else op.scope.blobs.get(internal)
        if value is None:
            op.unsupported(f"state {state.blob!r} is linked to {internal!r}, which is not a tensor", code="no-tensor")
        after.append(as_row(op, value, rows[state.blob]))
    return after


def as_row(op: Op, value: Value, row: Value) -> Value:
    """Reshape a value to a row of its state: in Caffe2 a link copies elements, regardless of their shape."""
    return value if op.rank(value) == op.rank(row) else op.emit("Reshape", value, op.emit("Shape", row))


def initial_row(op: Op, value: Value, sequence: Value) -> Value:
    """Convert an initial state to [1, N, D]: [D] is repeated for each batch element, [N, D] is one row.

    The sequence, [T, N, ...], has the batch.
    """
    rank = op.rank(value)
    if not 1 <= rank <= 3:
        op.unsupported(f"an initial state must have rank 1 to 3, not {rank}", code="invalid-operands")
    if rank == 1:
        shape = [1, op.shape(sequence)[1], op.shape(value)[0]]
        return op.emit("Expand", value, vector(op, [1, size(op, sequence, 1), size(op, value, 0)]), shape=shape)
    if rank == 2:
        return unsqueeze(op, value, [0])
    rows = op.static_dim(value, 0)
    if rows is not None and rows != 1:
        op.unsupported(f"an initial state must have one row, not {rows}")
    return value


def emit_sequence(op: Op, link: Link, steps: Size) -> Value:
    """Slice the rows of an outer blob that a link reads: row t + offset at step t."""
    value = op.scope.find(link.external)
    if value is None:
        op.unsupported(f"link {link.internal!r} reads {link.external!r}, which has no value", code="undefined-blob")
    if link.offset == 0 and link.external == op.view.inputs[0]:
        return value
    return slice_rows(op, value, link.offset, steps)


def slice_rows(op: Op, value: Value, offset: int, steps: Size) -> Value:
    """Slice the rows t + ``offset`` of all steps t."""
    start = vector(op, [offset])
    if isinstance(steps, int):
        end = vector(op, [offset + steps])
    elif offset:
        end = op.emit("Add", steps, start)
    else:
        end = steps
    return op.emit("Slice", value, start, end, op.const([0], np.int64))


def emit_timesteps(op: Op, steps: Size) -> Value:
    """Emit 0 ... T - 1, int32."""
    if isinstance(steps, int):
        return op.const(np.arange(op.bounded(steps)), np.int32)
    limit = op.emit("Cast", op.emit("Squeeze", steps), to=int(ir.DataType.INT32))
    return op.emit("Range", op.const(0, np.int32), limit, op.const(1, np.int32), shape=[None])


def _reads(net: NetDef, name: str) -> bool:
    """Return whether an operator of the net or its sub-nets reads a blob."""
    return any(name in op.input for op in operators_in(net))
