"""RecurrentNetwork: a loop over the rows of a sequence."""

from __future__ import annotations

from typing import Final

import torch

from caffe2_bridge.control import RecurrentNetwork, State
from caffe2_torch.evaluation.context import is_exporting
from caffe2_torch.evaluation.exporting import Bodies, export_steps
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.rows import Rows, StepBlobs

family = Family("recurrent")

# Arguments that do not change results.
SCHEDULED: Final = ("enable_rnn_executor", "rnn_executor_debug", "num_workspaces")


@family.converts("RecurrentNetwork")
def recurrent_network(op: Op) -> None:
    """Show the step net rows of states, of the sequence and of other blobs, through which it writes rows."""
    control = op.control
    assert isinstance(control, RecurrentNetwork)
    op.args.ignore(*control.arguments, *SCHEDULED)
    spec, sequence = control.spec, op.tensor(0)
    steps, batch = sequence.shape[:2]
    if is_exporting() and spec.row_reason is None:
        _export(op, control)
        return
    rows = {state.blob: _state_rows(op, state, steps, batch) for state in spec.states}
    rows |= {scratch.blob: Rows((batch, scratch.size), [None] * steps) for scratch in spec.scratches}
    blobs = StepBlobs(op, spec, rows)
    (body,) = op.bodies.values()
    for step in range(steps):
        blobs.begin(step, sequence.device)
        body.run(blobs, op.context)
    for name, value in blobs.rows.items():
        if name in rows or value.is_changed:
            op.blobs[name] = value.stacked(op, name, sequence)
    for alias in spec.aliases:
        source = blobs.rows[alias.source].stacked(op, alias.source, sequence)
        start = alias.offset if alias.offset >= 0 else source.shape[0] + alias.offset
        if not 0 <= start <= source.shape[0]:
            op.refuse(f"the output {alias.blob!r} is not rows of {alias.source!r}")
        op.blobs[alias.blob] = source[start:]
    for name in control.objects:
        op.blobs[name] = None


def _export(op: Op, control: RecurrentNetwork) -> None:
    """Record the steps as a scan of one row of each state, and of rows of the sequences."""
    spec, sequence = control.spec, op.tensor(0)
    steps, batch = sequence.shape[:2]
    (body,) = op.bodies.values()
    names = {link.external: link.internal for link in spec.reads()}
    after = {link.external: link.internal for link in spec.writes()}
    initial, sequences = {}, {}
    for state in spec.states:
        (first,) = (row for row in _state_rows(op, state, 0, batch).values if row is not None)
        initial[names[state.blob]] = first[None].clone(memory_format=torch.contiguous_format)
    for link in spec.reads():
        if link.internal not in initial:
            rows = op.blobs[link.external]
            assert isinstance(rows, torch.Tensor)
            sequences[link.internal] = rows[:steps]
    sequences[spec.timestep] = torch.arange(steps, dtype=torch.int32, device=sequence.device)
    bodies = Bodies(op, [body], [*initial, *sequences])
    stacked = export_steps(bodies, body, initial, sequences, [after[state.blob] for state in spec.states], batch)
    states = {
        state.blob: torch.cat([initial[names[state.blob]], rows])
        for state, rows in zip(spec.states, stacked, strict=True)
    }
    op.blobs.update(states)
    op.blobs.update((alias.blob, states[alias.source][alias.offset :]) for alias in spec.aliases)
    op.blobs.update(dict.fromkeys(control.objects))


def _state_rows(op: Op, state: State, steps: int, batch: int) -> Rows:
    """Return the rows of a state, of which the first are given: [N, D] each; a vector serves the whole batch."""
    given = op.tensor(state.initial)
    size = given.shape[-1]
    if given.dim() > 1 and given.shape[-2] != batch:
        op.refuse(f"the initial state of {state.blob!r} has {given.shape[-2]} rows, and the batch {batch}")
    first = [given.expand(batch, -1)] if given.dim() == 1 else list(given.reshape(-1, batch, size).unbind(0))
    return Rows((batch, size), [*first, *[None] * steps])
