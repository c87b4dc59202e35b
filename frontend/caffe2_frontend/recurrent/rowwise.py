"""RecurrentNetwork where one row of each state goes from step to step: a fused operator, a Scan or a Loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.bodies import Body, branch, build_body, discard_body, emit_loop, emit_scan
from caffe2_frontend.op import Op, Value
from caffe2_frontend.recurrent.fused import emit_fused, hidden_size, projection
from caffe2_frontend.recurrent.hoist import hoist_invariants, hoist_sequences
from caffe2_frontend.recurrent.interpret import Reading
from caffe2_frontend.recurrent.match import Cell, NoMatchError, match_cell
from caffe2_frontend.recurrent.spec import RecurrentSpec
from caffe2_frontend.recurrent.steps import Operands, Rows, lower_step, read_operands
from caffe2_frontend.shapes import Size, slice_axis, squeeze
from caffe2_frontend.state import Recurrent


def emit_rowwise(op: Op, spec: RecurrentSpec, form: Recurrent) -> dict[str, Rows]:
    """Emit the recurrent net in the given form; the rows of each state, by its blob."""
    operands = read_operands(op, spec)

    def step(inside: Op, states: list[Value], rows: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        after = lower_step(
            inside,
            spec,
            dict(zip(operands.initial, states, strict=True)),
            dict(zip(operands.sequences, rows, strict=True)),
        )
        return after, [squeeze(inside, value, [0]) for value in after]

    body = build_body(op, list(operands.initial.values()), list(operands.sequences.values()), step)
    hoist_invariants(op, body)
    if form in ("auto", "fused"):
        try:
            return _fused(op, spec, body, operands)
        except NoMatchError as error:
            if form == "fused":
                op.unsupported(f"no LSTM, GRU or RNN operator: {error}", hint="ask for auto, scan or loop")
            op.note(f"a Scan, as no LSTM, GRU or RNN operator computes this: {error}")
    last, steps = _guarded(op, hoist_sequences(op, body), operands.steps, form)
    return {
        blob: Rows(value, stacked, final)
        for (blob, value), stacked, final in zip(operands.initial.items(), steps, last, strict=True)
    }


def _guarded(op: Op, body: Body, steps: Size, form: Recurrent) -> tuple[list[Value], list[Value]]:
    """The loop; around it a branch for sequences of no steps: Scan takes none, and Loop forgets their shape."""

    def run(inside: Op) -> list[Value]:
        last, stacked = emit_loop(inside, body, steps) if form == "loop" else emit_scan(inside, body)
        return [*last, *stacked]

    def skip(inside: Op) -> list[Value]:
        return [*body.initial, *(slice_axis(inside, value, 0, 0, 0) for value in body.initial)]

    if isinstance(steps, int):
        results = run(op) if steps else skip(op)
    else:
        some = op.emit("Greater", op.emit("Squeeze", steps), op.const(0, np.int64))
        results = branch(op, some, run, skip)
    count = len(body.initial)
    for value, start in zip(results[count:], body.initial, strict=True):
        length = op.shape(body.sequences[0])[0]
        value.shape = None if start.shape is None else ir.Shape([length, *list(start.shape)[1:]])
    return results[:count], results[count:]


def _fused(op: Op, spec: RecurrentSpec, body: Body, operands: Operands) -> dict[str, Rows]:
    """Emit a fused operator. Raises NoMatchError, with nothing emitted, where none computes what the net does."""
    times = frozenset(row for row, name in zip(body.rows, operands.sequences, strict=True) if name == spec.timestep)
    reading = Reading(op, body, times)
    reading.read()
    cell = match_cell(reading)
    hidden_size(cell)
    source = projection(body, cell)
    _check_wanted(op, spec, cell)
    results = emit_fused(op, body, cell, source, operands.steps)
    discard_body(body)
    return {
        blob: Rows(initial, result.steps, result.last)
        for (blob, initial), result in zip(operands.initial.items(), results, strict=True)
    }


def _check_wanted(op: Op, spec: RecurrentSpec, cell: Cell) -> None:
    """ONNX's LSTM does not give the cell state of every step."""
    hidden = spec.states[cell.states[0]].blob
    wanted = [
        name
        for state in spec.states
        if state.blob != hidden
        for name in (state.blob, *(a.blob for a in spec.aliases if a.source == state.blob and a.offset != -1))
        if op.is_read(name)
    ]
    if wanted:
        raise NoMatchError(f"{wanted[0]!r} holds the cell state of every step, which ONNX's LSTM does not give")
