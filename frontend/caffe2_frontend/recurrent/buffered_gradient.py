"""The general form of RecurrentNetworkGradient: a loop that carries whole blobs, with links as views of their rows.

It is required if the forward operator carries whole blobs, if the backward step sees other rows of gradients than the
ones before and after it, or if it writes rows of forward blobs. Real Caffe2 fills the last row of the gradient of a
state with zeros, and leaves the others as they are until a step writes them; here they start as zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from caffe2_bridge.control import BackwardSpec, Link
from caffe2_bridge.ssa.effects import effects_of
from caffe2_frontend.emit.shapes import Size, indices, reshape, size, sizes, slice_axis, unsqueeze
from caffe2_frontend.emit.subgraphs import build_body, emit_loop, emit_scan, unless_empty
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.backward_step import hoist_from_steps, parameter_gradient, used_links
from caffe2_frontend.recurrent.buffer_views import views_inside
from caffe2_frontend.recurrent.buffered import zeros
from caffe2_frontend.recurrent.step_body import emit_timesteps, slice_rows
from caffe2_frontend.recurrent.step_workspaces import StepWorkspaces, bind_saved


@dataclass(frozen=True)
class BufferedGradients:
    """The results.

    Attributes:
        buffers: all rows of the blobs that the steps see, by outer blob.
        changed: those of which the steps write rows.
        parameters: the gradients of parameters.
    """

    buffers: Mapping[str, Value]
    changed: frozenset[str]
    parameters: Sequence[Value]


@dataclass(frozen=True)
class _Operands:
    """The operands of the loop.

    Attributes:
        links: the links of the blobs that the backward step net uses.
        buffers: the outer blobs of these links before the loop, and the gradients of the states and the sequence.
        written: those whose rows the steps write.
        rows: links to one row of the others, with the rows for all steps.
    """

    links: Mapping[str, Link]
    buffers: Mapping[str, Value]
    written: tuple[str, ...]
    rows: Mapping[str, Value]


def emit_buffered_gradient(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces) -> BufferedGradients:
    """Emit the loop, in a branch that skips it if T is 0: Scan requires a step."""
    steps = size(op, op.input(spec.sequence), 0)
    operands = _operands(op, spec, workspaces, steps)
    sums = [zeros(op, sizes(op, op.input(each.parameter))) for each in spec.parameters]
    before = [operands.buffers[name] for name in operands.written]

    def run(inside: Op) -> list[Value]:
        return _loop(inside, spec, workspaces, operands, sums, steps)

    results = unless_empty(op, steps, run, lambda _: [*before, *sums])
    for result, value in zip(results, [*before, *sums], strict=True):
        result.shape = value.shape
    count = len(operands.written)
    buffers = {**operands.buffers, **dict(zip(operands.written, results[:count], strict=True))}
    return BufferedGradients(buffers, frozenset(operands.written), results[count:])


def _loop(
    op: Op, spec: BackwardSpec, workspaces: StepWorkspaces, operands: _Operands, sums: Sequence[Value], steps: Size
) -> list[Value]:
    external = {state.gradient: op.input(state.steps) for state in spec.states if state.steps is not None}
    external = {name: slice_rows(op, value, 0, steps) for name, value in external.items()}
    found = effects_of(spec.step_net, spec.argument).found
    stacks, constants = (
        {key: value for key, value in kept.items() if key[0] in found and key[0] not in operands.links}
        for kept in (workspaces.stacks, workspaces.constants)
    )
    count = len(operands.written)

    def step(inside: Op, states: list[Value], rows: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        views, within = views_inside(inside)
        given = iter(rows)
        views.time = reshape(within, next(given), [1])
        views.blobs[spec.timestep] = unsqueeze(within, next(given), [0])
        views.blobs.update({name: unsqueeze(within, next(given), [0]) for name in operands.rows})
        views.links = {name: link for name, link in operands.links.items() if name not in operands.rows}
        views.buffers = {**operands.buffers, **dict(zip(operands.written, states[:count], strict=True))}
        bind_saved(views, {**{key: next(given) for key in stacks}, **constants})
        for gradient in external:
            after = Link("", gradient, 1)
            row = reshape(within, next(given), [1, *sizes(within, views.buffers[gradient], 1)])
            views.write(after, within.emit("Add", views.rows(after), row))
        within.lower_body(spec.step_net, views, spec.argument)
        found = [
            parameter_gradient(within, views, views.links, each.internal, op.input(each.parameter))
            for each in spec.parameters
        ]
        added = [within.emit("Add", total, value) for total, value in zip(states[count:], found, strict=True)]
        return [*(views.buffers[name] for name in operands.written), *added], []

    initial = [*(operands.buffers[name] for name in operands.written), *sums]
    times = [indices(op, steps), emit_timesteps(op, steps)]
    body = build_body(op, initial, [*times, *operands.rows.values(), *stacks.values(), *external.values()], step)
    body, hoisted = hoist_from_steps(op, spec, body, count)
    if op.lowering.recurrent == "scan":
        finals, stacked = emit_scan(op, body, reverse=True)
    else:
        finals, stacked = emit_loop(op, body, steps, reverse=True)
    parameters = [op.input(each.parameter) for each in spec.parameters]
    return [*finals[:count], *hoisted.finish(op, finals, stacked, parameters)]


def _operands(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces, steps: Size) -> _Operands:
    effects = effects_of(spec.step_net, spec.argument)
    used = {*effects.found, *effects.may, *(each.internal for each in spec.parameters)}
    links = {name: link for name, link in used_links(spec).items() if name in used}
    buffers = _gradients(op, spec, workspaces, steps)
    for link in links.values():
        if link.external not in buffers:
            buffers[link.external] = _forward(op, link, workspaces)
    changed = {link.external for name, link in links.items() if name in effects.may}
    changed |= {state.gradient for state in spec.states if state.steps is not None}
    written = tuple(name for name in buffers if name in changed)
    rows = {
        name: slice_rows(op, buffers[link.external], link.offset, steps)
        for name, link in links.items()
        if link.external not in changed and link.window == 1
    }
    return _Operands(links, buffers, written, rows)


def _gradients(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces, steps: Size) -> dict[str, Value]:
    """Return the gradients of states and sequence, and blobs that keep rows of steps, before the first step."""
    sequence = op.input(spec.sequence)
    batch = size(op, sequence, 1)
    found = {spec.sequence_gradient: zeros(op, sizes(op, sequence))}
    for state in spec.states:
        kept = workspaces.buffers.get(state.state)
        width = size(op, op.input(state.initial), -1)
        before = steps if kept is None else size(op, slice_axis(op, kept, 0, 0, -1), 0)
        if state.last is None:
            last = zeros(op, [1, batch, width])
        else:
            last = reshape(op, op.input(state.last), [1, batch, width])
        found[state.gradient] = op.emit("Concat", zeros(op, [before, batch, width]), last, axis=0)
    return found | {scratch.blob: zeros(op, [steps, batch, scratch.size]) for scratch in spec.scratches}


def _forward(op: Op, link: Link, workspaces: StepWorkspaces) -> Value:
    """Return all rows of a blob that the forward operator has left."""
    value = workspaces.buffers.get(link.external)
    rows = workspaces.states.get(link.external)
    if value is None and rows is not None:
        if rows.steps is None:
            op.unsupported(f"the rows of state {link.external!r} were not kept by the forward net")
        return op.emit("Concat", rows.initial, rows.steps, axis=0)
    value = op.scope.find(link.external) if value is None else value
    if value is None:
        op.unsupported(f"link {link.internal!r} is to {link.external!r}, which has no value", code="undefined-blob")
    return value
