"""RecurrentNetwork: a loop over the rows of a sequence."""

from __future__ import annotations

from collections import ChainMap

import torch

from caffe2_bridge.control import Link, RecurrentNetwork, State
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("recurrent")


@family.converts("RecurrentNetwork")
def recurrent_network(op: Op) -> None:
    """States are lists of rows [N, D]; the step net sees rows of them, or of other blobs, and writes the next ones."""
    control = op.control
    assert isinstance(control, RecurrentNetwork)
    # What real Caffe2 reads for its executor and gradients, and what these operators carry without effect.
    op.args.ignore("enable_rnn_executor", "step_net", "rnn_executor_debug", "num_workspaces")
    spec = control.spec
    sequence = op.tensor(0)
    steps, batch = sequence.shape[0], sequence.shape[1]
    rows = {state.blob: _initial_rows(op, state, batch) for state in spec.states}
    started = {name: len(each) for name, each in rows.items()}
    scratches: dict[str, list[torch.Tensor]] = {scratch.blob: [] for scratch in spec.scratches}
    reads, writes = list(spec.reads()), list(spec.writes())
    (body,) = op.bodies.values()
    for step in range(steps):
        inside: ChainMap[str, Value] = ChainMap({}, op.blobs)
        inside[spec.timestep] = torch.tensor([step], dtype=torch.int32, device=sequence.device)
        for link in reads:
            inside[link.internal] = _window(op, rows, link, step)
        body.run(inside, op.context)
        for link in writes:
            value = inside[link.internal]
            assert isinstance(value, torch.Tensor)
            if link.external in scratches:
                scratches[link.external].append(value)
            else:
                _write(op, rows[link.external], link, step, value)
    for name, each in (*rows.items(), *scratches.items()):
        if any(row is None for row in each):
            op.refuse(f"the step net does not write all rows of {name!r}")
        op.blobs[name] = torch.stack([row.reshape(row.shape[-2:]) for row in each]) if each else sequence.new_empty(0)
    for alias in spec.aliases:
        source = op.blobs[alias.source]
        assert isinstance(source, torch.Tensor)
        full = source.shape[0] == steps + started.get(alias.source, 0)
        start = alias.offset if alias.offset >= 0 else source.shape[0] + alias.offset
        if not full or not 0 <= start <= source.shape[0]:
            op.refuse(f"the output {alias.blob!r} is not rows of {alias.source!r}")
        op.blobs[alias.blob] = source[start:]
    for name in control.objects:
        op.blobs[name] = None


def _initial_rows(op: Op, state: State, batch: int) -> list[torch.Tensor]:
    """The first rows of a state, [N, D] each: a vector is the same for the whole batch."""
    given = op.tensor(state.initial)
    if given.dim() == 1:
        return [given.expand(batch, -1)]
    if given.shape[-2] != batch:
        op.refuse(f"the initial state of {state.blob!r} has {given.shape[-2]} rows, and the batch {batch}")
    return list(given.reshape(-1, batch, given.shape[-1]).unbind(0))


def _window(op: Op, rows: dict[str, list[torch.Tensor]], link: Link, step: int) -> torch.Tensor:
    """The rows of an outer blob that the step net sees, [window, ...]."""
    start, end = step + link.offset, step + link.offset + link.window
    if link.external not in rows:
        outer = op.blobs[link.external]
        if not isinstance(outer, torch.Tensor) or start < 0 or end > outer.shape[0]:
            op.refuse(f"{link.external!r} has no rows {start} to {end}")
        return outer[start:end]
    own = rows[link.external]
    if start < 0 or end > len(own):
        op.refuse(f"{link.external!r} has no rows {start} to {end} when they are read")
    return torch.stack(own[start:end])


def _write(op: Op, rows: list[torch.Tensor], link: Link, step: int, value: torch.Tensor) -> None:
    """Put the rows that the step net wrote into a state, each after the last or over a known one."""
    start = step + link.offset
    if start > len(rows):
        op.refuse(f"the step net writes row {start} of {link.external!r} before row {len(rows)}")
    new = value.reshape(link.window, *value.shape[-2:]).unbind(0)
    rows[start : start + link.window] = [row.expand(rows[0].shape) for row in new]
