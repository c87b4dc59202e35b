"""Convert RecurrentNetworkGradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from caffe2_bridge.control import BackwardSpec, RecurrentNetworkGradient
from caffe2_bridge.init.random_operators import draws_numbers
from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import END, Size, size, sizes, slice_axis, squeeze, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import build_body, emit_steps, unless_empty
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.backward_step import (
    backward_operands,
    buffer_reason,
    hoist_from_steps,
    lower_backward_step,
)
from caffe2_frontend.recurrent.buffered import zeros
from caffe2_frontend.recurrent.buffered_gradient import emit_buffered_gradient
from caffe2_frontend.recurrent.step_workspaces import StepWorkspaces

family = Family("recurrent_gradient")


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe gradients, the sequence and the outputs of the forward operator as [T, N, D]."""
    control = RecurrentNetworkGradient(op)
    gradients, states = control.output_gradients, control.states
    if index == len(op.inputs) - 1:
        return TensorInfo(shape=())  # the step workspaces, which are not a tensor
    if index <= gradients or index >= len(op.inputs) - 1 - 2 * len(states):
        return TensorInfo(shape=(None, None, None))
    return TensorInfo(shape=(1, None, None)) if index - gradients in control.initial_ids else TensorInfo()


@dataclass(frozen=True)
class _Gradients:
    """The results.

    Attributes:
        sequence: the gradient of the sequence, [T, N, ...]; of a loop or a branch [T, 1, N, ...].
        parameters: the gradients of parameters.
        initial: the first rows of the gradients of states.
        rows: all their rows but these, if they are read.
    """

    sequence: Value
    parameters: Sequence[Value]
    initial: Sequence[Value]
    rows: Sequence[Value]

    def values(self) -> list[Value]:
        return [self.sequence, *self.parameters, *self.initial, *self.rows]


@family.converts("RecurrentNetworkGradient", expects=_operand)
def recurrent_network_gradient(op: Op) -> tuple[Value | None, ...]:
    """RecurrentNetworkGradient(dY..., inputs..., outputs..., step_workspaces) -> dsequence, dparameters..., dinitial...

    A loop from the last step to the first. It carries the row of each state's gradient, and the sums of the
    parameters' gradients; it stacks the rows of the sequence's gradient.
    """
    control = RecurrentNetworkGradient(op.view)
    spec = control.spec
    workspaces = op.scope.find_object(control.workspaces)
    if not isinstance(workspaces, StepWorkspaces):
        missing = f"the step workspaces {control.workspaces!r} do not come from a RecurrentNetwork of the net"
        if draws_numbers(OpView(control.forward_operator, op.view.index)):
            missing += ", whose steps cannot run again, because they draw random numbers"
        op.unsupported(missing, "convert the forward and the gradient operators as one net")
    kept = (*(scratch.blob for scratch in spec.scratches), *(alias.blob for alias in spec.aliases))
    if not any(_is_wanted(op, blob) for blob in kept if blob != spec.sequence_gradient):
        spec = spec.without_scratches()
    reason = buffer_reason(spec, workspaces)
    if reason is None:
        results = _rowwise(op, spec, workspaces)
    else:
        kind = "Scan" if op.lowering.recurrent == "scan" else "Loop"
        op.note(f"the gradient becomes a {kind} that carries whole gradients of states: {reason}")
        results = _buffered(op, spec, workspaces)
    return tuple(results.get(i, op.scope.blobs.get(name)) for i, name in enumerate(op.view.outputs))


def _results(
    spec: BackwardSpec, sequence: Value, parameters: Sequence[Value], initial: Sequence[Value]
) -> dict[int, Value]:
    """Return the results by index."""
    found = {0: sequence}
    found.update((each.output, value) for each, value in zip(spec.parameters, parameters, strict=True))
    found.update((state.output, value) for state, value in zip(spec.states, initial, strict=True))
    return found


def _rowwise(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces) -> dict[int, Value]:
    made = _guarded(op, spec, workspaces)
    for state, first, rows in zip(spec.states, made.initial, made.rows or made.initial, strict=True):
        if _is_wanted(op, state.gradient):
            op.scope.bind(state.gradient, op.emit("Concat", first, rows, axis=0))
    _bind_sequence(op, spec, made.sequence)
    initial = [_initial(op, op.input(state.initial), row) for state, row in zip(spec.states, made.initial, strict=True)]
    return _results(spec, made.sequence, made.parameters, initial)


def _buffered(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces) -> dict[int, Value]:
    made = emit_buffered_gradient(op, spec, workspaces)
    results = {*op.view.outputs[: 1 + len(spec.parameters) + len(spec.states)]}
    for blob in (*(state.gradient for state in spec.states), *made.changed):
        if blob not in results and _is_wanted(op, blob):
            op.scope.bind(blob, made.buffers[blob])
    sequence = made.buffers[spec.sequence_gradient]
    # Results of the forward operator are views of its states, whatever the arguments of its gradient call them.
    views = spec.forward.aliases if workspaces.aliases is None else workspaces.aliases
    for alias in (*spec.aliases, *views):
        if alias in spec.aliases or alias.source in made.changed:
            rows = slice_axis(op, made.buffers[alias.source], 0, alias.offset, END)
            if alias.blob == spec.sequence_gradient:
                sequence = rows
            else:
                op.scope.bind(alias.blob, rows)
    _bind_sequence(op, spec, sequence)
    initial = [_first_rows(op, op.input(state.initial), made.buffers[state.gradient]) for state in spec.states]
    return _results(spec, sequence, made.parameters, initial)


def _bind_sequence(op: Op, spec: BackwardSpec, gradient: Value) -> None:
    """Bind the gradient of the sequence to its own name, too, if the operator lists it under another one."""
    if spec.sequence_gradient not in op.view.outputs and op.is_read(spec.sequence_gradient):
        op.scope.bind(spec.sequence_gradient, op.emit("Identity", gradient))


def _is_wanted(op: Op, blob: str) -> bool:
    return op.is_read(blob) or blob in op.view.outputs


def _guarded(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces) -> _Gradients:
    """Emit the loop, in a branch that skips it if T is 0: Scan requires a step."""
    sequence = op.input(spec.sequence)
    steps = size(op, sequence, 0)
    values = unless_empty(
        op,
        steps,
        lambda inside: _loop(inside, spec, workspaces, steps).values(),
        lambda inside: _skip(inside, spec, steps).values(),
    )
    gradient = squeeze(op, values[0], [1])  # a copy, if it were the end of the branch
    gradient.shape = sequence.shape
    parameters, states = len(spec.parameters), len(spec.states)
    ends = [1 + parameters, 1 + parameters + states]
    return _Gradients(gradient, values[1 : ends[0]], values[ends[0] : ends[1]], values[ends[1] :])


def _loop(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces, steps: Size) -> _Gradients:
    operands = backward_operands(op, spec, workspaces, steps)
    last = _last_rows(op, spec)
    sums = [_zeros_like(op, op.input(each.parameter)) for each in spec.parameters]
    wanted = _rows_are_read(op, spec)

    def step(inside: Op, states: list[Value], rows: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        results = lower_backward_step(inside, spec, operands, states[: len(last)], rows)
        added = [
            inside.emit("Add", before, each)
            for before, each in zip(states[len(last) :], results.parameters, strict=True)
        ]
        after = [squeeze(inside, row, [0]) for row in results.after] if wanted else []
        return [*results.before, *added], [results.sequence, *after]

    body = build_body(op, [*last, *sums], operands.sequences() or [op.input(spec.sequence)], step)
    body, hoisted = hoist_from_steps(op, spec, body, len(last))
    finals, stacks = emit_steps(op, body, steps, reverse=True)
    parameters = hoisted.finish(op, finals, stacks, [op.input(each.parameter) for each in spec.parameters])
    rows = stacks[1 : 1 + len(last)] if wanted else []
    return _Gradients(stacks[0], parameters, finals[: len(last)], rows)


def _skip(op: Op, spec: BackwardSpec, steps: Size) -> _Gradients:
    """Return the results for no step."""
    del steps
    sequence = op.input(spec.sequence)
    none = [sequence] * len(spec.states) if _rows_are_read(op, spec) else []
    parameters = [_zeros_like(op, op.input(each.parameter)) for each in spec.parameters]
    return _Gradients(unsqueeze(op, sequence, [1]), parameters, _last_rows(op, spec), none)


def _rows_are_read(op: Op, spec: BackwardSpec) -> bool:
    return any(_is_wanted(op, state.gradient) for state in spec.states)


def _last_rows(op: Op, spec: BackwardSpec) -> list[Value]:
    """Return row T of the gradient of each state, [1, N, D]: zeros, or the last row's gradient from outside."""
    batch = size(op, op.input(spec.sequence), 1)
    rows = []
    for state in spec.states:
        shape = [1, batch, size(op, op.input(state.initial), -1)]
        if state.last is None:
            rows.append(zeros(op, shape))
        else:
            rows.append(op.emit("Reshape", op.input(state.last), vector(op, shape), allowzero=1, shape=_dims(shape)))
    return rows


def _initial(op: Op, initial: Value, row: Value) -> Value:
    """Return the gradient of an initial state from row 0, [1, N, D]; an initial state [D] serves the whole batch."""
    rank = op.rank(initial)
    if rank == 1:
        return reduce_axes(op, "ReduceSum", row, [0, 1])
    return squeeze(op, row, [0]) if rank == 2 else row


def _first_rows(op: Op, initial: Value, rows: Value) -> Value:
    """Return the gradient of an initial state from all rows of the state's gradient; the first ones are its own."""
    if op.rank(initial) < 3:
        return _initial(op, initial, slice_axis(op, rows, 0, 0, 1))
    count = vector(op, [size(op, initial, 0)])
    return op.emit("Slice", rows, op.const([0], np.int64), count, op.const([0], np.int64), shape=initial.shape)


def _zeros_like(op: Op, value: Value) -> Value:
    return zeros(op, sizes(op, value))


def _dims(dims: Sequence[Size]) -> list[int | None]:
    return [dim if isinstance(dim, int) else None for dim in dims]
