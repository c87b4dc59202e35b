"""The general form of RecurrentNetwork: a Loop or Scan that carries whole blobs, with links as views of their rows.

It is required if steps carry more than one row: windows, several initial rows, links to blobs that are not states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_bridge.control import Link, RecurrentSpec
from caffe2_frontend.emit.shapes import Size, indices, no_rows, reshape, size, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import LoopStep, build_body, emit_scan, loop, unless_empty
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.buffer_views import views_inside
from caffe2_frontend.recurrent.step_workspaces import SavedKey, StepWorkspaces, requests, saved_values
from caffe2_frontend.targets.target import Recurrent


def emit_buffered(op: Op, spec: RecurrentSpec, form: Recurrent) -> tuple[dict[str, Value], StepWorkspaces]:
    """Emit a Scan in the form ``scan``, else a Loop.

    Returns all rows of each state, and of each other linked blob that is written, after it; and what the gradient
    operator finds of the steps.
    """
    first = op.input(0)
    steps, batch = size(op, first, 0), size(op, first, 1)
    initial = {state.blob: _state(op, op.input(state.initial), steps, batch) for state in spec.states}
    initial.update({scratch.blob: zeros(op, [steps, batch, scratch.size]) for scratch in spec.scratches})
    created = tuple(initial)
    for link in spec.links:
        if link.external not in initial:
            initial[link.external] = _outer(op, link)
    written = list(dict.fromkeys(link.external for link in spec.writes()))
    wanted = requests(op, spec).blobs
    saved: list[SavedKey] = []

    def step(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        views, within = views_inside(inside)
        views.time = reshape(inside, iteration[0], [1])
        views.links = {link.internal: link for link in spec.links}
        views.buffers = {**initial, **dict(zip(written, states, strict=True))}
        views.blobs[spec.timestep] = within.emit("Cast", views.time, to=int(ir.DataType.INT32))
        within.lower_body(spec.step_net, views, spec.argument)
        values = saved_values(within, wanted)
        saved.extend(values)
        return [views.buffers[name] for name in written], [*values.values()]

    before = [initial[name] for name in written]
    finals, stacks = _scan(op, steps, before, step) if form == "scan" else loop(op, steps, None, before, step)
    after = {**initial, **dict(zip(written, finals, strict=True))}
    buffers = {name: after[name] for name in created}
    return after, StepWorkspaces({}, dict(zip(saved, stacks, strict=True)), {}, buffers)


def _scan(op: Op, steps: Size, initial: Sequence[Value], step: LoopStep) -> tuple[list[Value], list[Value]]:
    """Emit a Scan along the indices of the steps; the results are those of :func:`loop`."""
    body = build_body(op, initial, [indices(op, steps)], step)

    def run(inside: Op) -> list[Value]:
        finals, stacks = emit_scan(inside, body)
        return [*finals, *stacks]

    results = unless_empty(
        op, steps, run, lambda inside: [*initial, *(no_rows(inside, value) for value in body.stacked)]
    )
    for result, value in zip(results, initial, strict=False):
        result.shape = value.shape
    return results[: len(initial)], results[len(initial) :]


def _state(op: Op, value: Value, steps: int | Value, batch: int | Value) -> Value:
    """Emit a state of L + T rows: its initial rows, then zeros, which the steps overwrite."""
    rank = op.rank(value)
    if not 1 <= rank <= 3:
        op.unsupported(f"an initial state must have rank 1 to 3, not {rank}", code="invalid-operands")
    width = size(op, value, -1)
    if rank == 1:
        value = op.emit("Expand", value, vector(op, [1, batch, width]))
    elif rank == 2:
        value = unsqueeze(op, value, [0])
    rest = zeros(op, [steps, batch, width])
    dims = [None, *(d if isinstance(d, int) else None for d in (batch, width))]
    return op.emit("Concat", value, rest, axis=0, shape=dims)


def zeros(op: Op, dims: Sequence[Size]) -> Value:
    """Emit float zeros of the given sizes."""
    shape = [dim if isinstance(dim, int) else None for dim in dims]
    fill = ir.Tensor(np.zeros(1, np.float32))
    return op.emit("ConstantOfShape", vector(op, dims), value=fill, shape=shape)


def _outer(op: Op, link: Link) -> Value:
    value = op.scope.find(link.external)
    if value is None:
        op.unsupported(f"link {link.internal!r} is to {link.external!r}, which has no value", code="undefined-blob")
    return value
