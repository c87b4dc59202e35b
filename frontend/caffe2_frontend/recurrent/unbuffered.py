"""Convert RecurrentNetworks that carry one row of each state: to a fused operator, a Scan or a Loop."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from caffe2_bridge.cells.match import Cell, NoMatchError, match_cells
from caffe2_bridge.control import RecurrentSpec, State
from caffe2_frontend.emit.shapes import Size, no_rows, slice_axis, squeeze
from caffe2_frontend.emit.subgraphs import Body, becomes_loop, build_body, discard_body, emit_steps, unless_empty
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.body_passes.align_constants import align_constants
from caffe2_frontend.recurrent.body_passes.hoist import gather_addends, hoist_invariants, hoist_sequences
from caffe2_frontend.recurrent.body_passes.merge_products import join_products
from caffe2_frontend.recurrent.body_passes.narrow_products import transpose_narrow_products
from caffe2_frontend.recurrent.body_passes.transpose_products import transpose_products
from caffe2_frontend.recurrent.fastest_form import SlowerError, missing_operator, scan_reason
from caffe2_frontend.recurrent.fused import Fused, emit_fused, hidden_size, projection
from caffe2_frontend.recurrent.interpret import Reading
from caffe2_frontend.recurrent.step_body import Operands, Rows, lower_step, read_operands
from caffe2_frontend.recurrent.step_workspaces import (
    Requests,
    SavedKey,
    StepWorkspaces,
    requests,
    saved_values,
    take_known,
)
from caffe2_frontend.targets.target import Recurrent


def emit_rowwise(op: Op, spec: RecurrentSpec, form: Recurrent) -> StepWorkspaces:
    """Emit the recurrent net in the given form.

    Returns the rows of each state, by its blob, and what the gradient operator finds of the steps.
    """
    operands = read_operands(op, spec)
    wanted = requests(op, spec)

    def step(inside: Op, states: list[Value], rows: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        for state in states:
            if state.shape is not None:
                state.shape = ir.Shape([1, *state.shape[1:]])
        after = lower_step(
            inside,
            spec,
            dict(zip(operands.initial, states, strict=True)),
            dict(zip(operands.sequences, rows, strict=True)),
        )
        rows_of_states = [squeeze(inside, after[i], [0]) for i in stacked]
        values = saved_values(inside, wanted.blobs)
        saved.extend(values)
        return after, [*rows_of_states, *values.values()]

    saved: list[SavedKey] = []
    # A body computes all its results, so those that are not read are omitted.
    read = {state.blob for state in spec.states if _steps_are_read(op, spec, state)} | wanted.states
    stacked = [i for i, state in enumerate(spec.states) if state.blob in read]
    body = build_body(op, list(operands.initial.values()), list(operands.sequences.values()), step)
    hoist_invariants(op, body)
    if form not in ("scan", "loop"):
        try:
            _check_training(wanted)
            return StepWorkspaces(_fused(op, spec, body, operands, form), {}, {})
        except NoMatchError as error:
            if form == "fused":
                hint = "choose another form: --recurrent auto, or recurrent='auto'"
                op.unsupported(f"no LSTM, GRU or RNN operator computes this net: {error}", hint)
            kind = "Loop" if becomes_loop(op) else "Scan"
            exact = "" if isinstance(error, SlowerError) else "no LSTM, GRU or RNN operator computes it: "
            op.note(f"the net becomes a {kind}, because {exact}{error}")
    body = hoist_sequences(op, gather_addends(body))
    join_products(op, body)
    if wanted:  # a training net, whose weights are not constants
        transpose_products(op, body)
    else:
        transpose_narrow_products(op, body)
        align_constants(op, body)
        hoist_invariants(op, body)
    body, saving = take_known(body, len(stacked), saved)
    last, steps = _guarded(op, body, stacked, operands.steps)
    rows = dict(zip(stacked, steps, strict=False))
    states = {
        blob: Rows(value, rows.get(i), final)
        for i, ((blob, value), final) in enumerate(zip(operands.initial.items(), last, strict=True))
    }
    return saving.finish(states, steps[len(stacked) :])


def _guarded(op: Op, body: Body, stacked: Sequence[int], steps: Size) -> tuple[list[Value], list[Value]]:
    """Emit the loop, in a branch that skips it if T is 0: Scan requires a step, and Loop loses the shape of results.

    ``stacked`` are the states of the first stacked values of the body; the others are blobs that are saved.
    """
    saved = body.stacked[len(stacked) :]

    def run(inside: Op) -> list[Value]:
        last, rows = emit_steps(inside, body, steps)
        return [*last, *rows]

    def skip(inside: Op) -> list[Value]:
        states = (slice_axis(inside, body.initial[i], 0, 0, 0) for i in stacked)
        return [*body.initial, *states, *(no_rows(inside, value) for value in saved)]

    results = unless_empty(op, steps, run, skip)
    count = len(body.initial)
    length = op.shape(body.sequences[0])[0]
    shapes = [None if s is None else list(s)[1:] for s in (body.initial[i].shape for i in stacked)]
    shapes += [None if s is None else list(s) for s in (value.shape for value in saved)]
    for value, shape in zip(results[count:], shapes, strict=True):
        value.shape = None if shape is None else ir.Shape([length, *shape])
    return results[:count], results[count:]


def _fused(op: Op, spec: RecurrentSpec, body: Body, operands: Operands, form: Recurrent) -> dict[str, Rows]:
    """Emit fused operators.

    Raises:
        NoMatchError: the cells are not equivalent to fused operators, or, as a SlowerError in the form ``auto``, these
            are slower than a Scan. Nothing was emitted.
    """
    times = frozenset(row for row, name in zip(body.rows, operands.sequences, strict=True) if name == spec.timestep)
    reading = Reading(op, body, times)
    reading.read()
    cells = match_cells(reading.equations())
    sources = [projection(body, cell) for cell in cells]
    for cell in cells:
        if lacking := missing_operator(cell, form, op.lowering.target):
            raise NoMatchError(lacking)
        slow = scan_reason(cell.kind, hidden_size(cell), op.static_dim(op.input(0), 1))
        if form == "auto" and slow:
            raise SlowerError(slow)
    omitted = _outputs_to_omit(op, spec, cells)
    results: dict[int, Fused] = {}
    outputs: dict[Value, Value] = {}
    for cell, source in zip(cells, sources, strict=True):
        kept = [i for i in cell.states[1:] if _last_is_read(op, spec, spec.states[i])]
        results |= emit_fused(op, body, cell, source, outputs, operands.steps, keeps_cell_state=bool(kept))
        hidden = results[cell.states[0]].steps
        assert hidden is not None
        outputs[cell.output] = hidden
    discard_body(body)
    if omitted:
        op.lowering.omitted[op.location] = omitted
    return {
        blob: Rows(initial, results[i].steps, results[i].last)
        for i, (blob, initial) in enumerate(operands.initial.items())
    }


def _check_training(wanted: Requests) -> None:
    """Raise NoMatchError if a gradient operator reads blobs of the steps, which fused operators do not output."""
    if wanted:
        raise NoMatchError("its gradient operator reads blobs of the steps, which ONNX's operators do not output")


def _outputs_to_omit(op: Op, spec: RecurrentSpec, cells: Sequence[Cell[Value]]) -> list[str]:
    """Return the outputs of the model with the cell state of every step, which ONNX's LSTM does not output.

    Outputs that the net declares, or the caller asks for, are not omitted.

    Raises:
        NoMatchError: the cell state of every step is needed.
    """
    states = (spec.states[i] for cell in cells for i in cell.states[1:])
    wanted = [name for state in states for name in _read_steps(op, spec, state)]
    if not wanted:
        return []
    lowering = op.lowering
    if all(lowering.reads.counts[name] == lowering.outputs.count(name) for name in wanted):
        if lowering.implied_outputs and set(lowering.outputs).difference(wanted, *lowering.omitted.values()):
            return wanted
        lowering.unfused[op.location] = wanted
        how = "is an output of the net"
    else:
        how = "is read"
    raise NoMatchError(f"the cell state of every step ({wanted[0]!r}) {how}, which ONNX's LSTM does not output")


def _steps_are_read(op: Op, spec: RecurrentSpec, state: State) -> bool:
    """Return whether more of a state than its last row is read."""
    return bool(_read_steps(op, spec, state))


def _last_is_read(op: Op, spec: RecurrentSpec, state: State) -> bool:
    """Return whether the last row of a state is read."""
    return any(op.is_read(a.blob) for a in spec.aliases if a.source == state.blob and a.offset == -1)


def _read_steps(op: Op, spec: RecurrentSpec, state: State) -> list[str]:
    """Return the blobs with more of a state than its last row that are read."""
    aliases = (alias.blob for alias in spec.aliases if alias.source == state.blob and alias.offset != -1)
    return [name for name in dict.fromkeys((state.blob, *aliases)) if op.is_read(name)]
