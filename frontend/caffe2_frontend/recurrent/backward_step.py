"""The backward step net as the body of a loop from the last step to the first."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from caffe2_bridge.control import BackwardSpec, Link
from caffe2_bridge.ssa.effects import effects_of
from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.shapes import Size, reshape, sizes, slice_axis, unsqueeze
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.recurrent.body_passes.hoist import gather_addends, hoist_invariants, hoist_sequences
from caffe2_frontend.recurrent.body_passes.hoist_sums import HoistedSums, hoist_sums
from caffe2_frontend.recurrent.body_passes.merge_products import join_products
from caffe2_frontend.recurrent.body_passes.transpose_products import transpose_products
from caffe2_frontend.recurrent.step_body import Rows, emit_sequence, emit_timesteps
from caffe2_frontend.recurrent.step_workspaces import SavedKey, StepWorkspaces, bind_saved

# A row of an outer blob that a step sees: the outer blob, and the offset of its row from the index of the step.
RowKey = tuple[str, int]


@dataclass(frozen=True)
class BackwardOperands:
    """What the steps read, over all steps [T, ...].

    Attributes:
        rows: rows of forward blobs, by the outer blob and the offset.
        stacks: blobs of the forward step net.
        constants: those that have the same value in every step.
        external: gradients of the rows of states from outside of the net, by the blob of the state's gradient.
        time: the index of the step; None if the step net does not read it.
    """

    rows: Mapping[RowKey, Value]
    stacks: Mapping[SavedKey, Value]
    constants: Mapping[SavedKey, Value]
    external: Mapping[str, Value]
    time: Value | None

    def sequences(self) -> list[Value]:
        """Return those that have a row for each step, in the order in which :func:`lower_backward_step` takes rows."""
        time = [] if self.time is None else [self.time]
        return [*self.rows.values(), *self.stacks.values(), *self.external.values(), *time]


@dataclass
class _Views(Scope):
    """The scope of a backward step net, in which linked blobs are views of rows of outer blobs."""

    links: dict[str, RowKey] = field(default_factory=dict)
    rows: dict[RowKey, Value] = field(default_factory=dict)
    op: Op | None = None

    def find(self, blob: str) -> Value | None:
        """Return the value of a blob; for a linked blob the row of its outer blob."""
        key = self.links.get(blob)
        if key is None:
            return super().find(blob)
        if key not in self.rows and self.op is not None:
            self.op.unsupported(
                f"the backward step net reads {blob!r}, row t + {key[1]} of {key[0]!r}, before it writes that row"
            )
        return self.rows[key]

    def is_known(self, blob: str) -> bool:
        """Return whether a blob is defined; linked blobs always are."""
        return blob in self.links or super().is_known(blob)

    def bind(self, blob: str, value: Value | None) -> None:
        """Set the value of a blob; for a linked blob the row of its outer blob."""
        key = self.links.get(blob)
        if key is None or value is None:
            super().bind(blob, value)
            return
        if value in self.unbound:
            super().bind(blob, value)
        self.rows[key] = value


def backward_operands(op: Op, spec: BackwardSpec, workspaces: StepWorkspaces, steps: Size) -> BackwardOperands:
    """Collect the operands of the steps: of what the forward operator left, what the step net reads."""
    found = effects_of(spec.step_net, spec.argument).found
    links = used_links(spec)
    gradients = _gradients(spec)
    rows = {
        (link.external, link.offset): _rows_of(op, spec, link, workspaces, steps)
        for name, link in links.items()
        if name in found and link.external not in gradients
    }
    external = {state.gradient: op.input(state.steps) for state in spec.states if state.steps is not None}
    left = {name for name in found if name not in links}
    return BackwardOperands(
        rows,
        {key: value for key, value in workspaces.stacks.items() if key[0] in left},
        {key: value for key, value in workspaces.constants.items() if key[0] in left},
        external,
        emit_timesteps(op, steps) if spec.timestep in found else None,
    )


@dataclass(frozen=True)
class BackwardResults:
    """The results of a step: rows [1, N, ...] of gradients before and after it, and gradients of parameters."""

    before: list[Value]
    after: list[Value]
    sequence: Value
    parameters: list[Value]


def lower_backward_step(
    inside: Op, spec: BackwardSpec, operands: BackwardOperands, states: Sequence[Value], rows: Sequence[Value]
) -> BackwardResults:
    """Lower the backward step net into the body ``inside``.

    Args:
        inside: the operator inside the body.
        spec: the gradient operator.
        operands: the operands of all steps.
        states: rows t + 1 of the gradients of states, [1, N, D].
        rows: the rows of :meth:`BackwardOperands.sequences`.
    """
    views = _views(inside, spec)
    op = inside.inside(views)
    views.op = op
    given = iter(rows)
    for key in operands.rows:
        views.rows[key] = unsqueeze(op, next(given), [0])
    bind_saved(views, {**{key: next(given) for key in operands.stacks}, **operands.constants})
    for state, row in zip(spec.states, states, strict=True):
        views.rows[state.gradient, 1] = row
    for gradient in operands.external:
        row = _as_row(op, unsqueeze(op, next(given), [0]), views.rows[gradient, 1])
        views.rows[gradient, 1] = op.emit("Add", views.rows[gradient, 1], row)
    if operands.time is not None:
        views.blobs[spec.timestep] = unsqueeze(op, next(given), [0])
    op.lower_body(spec.step_net, views, spec.argument)
    before = [
        _as_row(op, _written(op, views, (state.gradient, 0)), row)
        for state, row in zip(spec.states, states, strict=True)
    ]
    after = [_as_row(op, views.rows[state.gradient, 1], row) for state, row in zip(spec.states, states, strict=True)]
    sequence = _written(op, views, (spec.sequence_gradient, 0))
    sequence = _as_row_of(op, sequence, op.input(spec.sequence))
    parameters = [
        parameter_gradient(op, views, views.links, each.internal, op.input(each.parameter)) for each in spec.parameters
    ]
    return BackwardResults(before, after, sequence, parameters)


def _views(inside: Op, spec: BackwardSpec) -> _Views:
    outer = inside.scope
    views = _Views(outer.names, outer.constants, outer.opset, outer.parent, sizes=outer.sizes)
    views.nodes = outer.nodes  # the body's own
    links = used_links(spec)
    views.links = {name: (link.external, link.offset) for name, link in links.items()}
    return views


def used_links(spec: BackwardSpec) -> dict[str, Link]:
    """Return the link of each internal blob: real Caffe2 applies all in order, so that the last holds."""
    return {link.internal: link for link in spec.links}


def hoist_from_steps(op: Op, spec: BackwardSpec, body: Body, states: int) -> tuple[Body, HoistedSums]:
    """Move out of the loop what need not be in it; the states of the body after the first ``states`` are sums.

    What depends on the sequences alone stays if the steps compute blobs again, to save the memory of all steps' blobs.
    """
    hoist_invariants(op, body)
    if spec.recomputed:
        body, sums = hoist_sums(op, body, states, known_only=True)
    else:
        body, sums = hoist_sums(op, hoist_sequences(op, gather_addends(body)), states)
    join_products(op, body)
    transpose_products(op, body)
    return body, sums


def buffer_reason(spec: BackwardSpec, workspaces: StepWorkspaces) -> str | None:
    """Return why the loop must carry more than one row of each state's gradient; None if one row suffices."""
    if workspaces.buffers:
        return "the forward operator carries whole states"
    if spec.scratches:
        return f"the rows of {spec.scratches[0].blob!r} are read"
    gradients = _gradients(spec)
    for link in spec.links:
        last = 0 if link.external == spec.sequence_gradient else 1
        if link.external in gradients and (link.window != 1 or not 0 <= link.offset <= last):
            return f"link {link.internal!r} sees a window of {link.window} rows at offset {link.offset}"
    for name, link in used_links(spec).items():
        if link.external not in gradients and name in _changed(spec):
            return f"the backward step net writes {name!r}, a row of {link.external!r}"
    return None


def _changed(spec: BackwardSpec) -> set[str]:
    """Return the blobs that the backward step net writes, but for those it recomputes as the forward step net does.

    Its operators are compared with those of the forward step net. Blobs may have other names in it, if both nets write
    them several times: ``forward`` maps its names to those of the forward step net.
    """
    forward: dict[str, str] = {}
    changed: set[str] = set()
    for op in spec.step_net.op:
        inputs = [forward.get(name, name) for name in op.input]
        equal = (
            each
            for each in spec.forward.step_net.op
            if (each.type, each.arg, len(each.output)) == (op.type, op.arg, len(op.output)) and each.input == inputs
        )
        found = next(equal, None)
        for index, name in enumerate(op.output):
            forward[name] = "" if found is None else found.output[index]
            if forward[name] != name:
                changed.add(name)
    return changed


def _gradients(spec: BackwardSpec) -> frozenset[str]:
    return frozenset((spec.sequence_gradient, *(state.gradient for state in spec.states)))


def _rows_of(op: Op, spec: BackwardSpec, link: Link, workspaces: StepWorkspaces, steps: Size) -> Value:
    """Emit row t + offset of an outer blob for every step t, [T, ...]."""
    rows = workspaces.states.get(link.external)
    if rows is None and link.offset == 0 and link.external == op.view.inputs[spec.sequence]:
        return op.input(spec.sequence)
    if rows is None:
        return emit_sequence(op, link, steps)
    return _state_rows(op, link, rows)


def _state_rows(op: Op, link: Link, rows: Rows) -> Value:
    if rows.steps is None or link.offset not in (0, 1):
        op.unsupported(f"the rows at offset {link.offset} of state {link.external!r} were not kept by the forward net")
    if link.offset == 1:
        return rows.steps
    return op.emit("Concat", rows.initial, slice_axis(op, rows.steps, 0, 0, -1), axis=0, shape=rows.steps.shape)


def _as_row(op: Op, value: Value, row: Value) -> Value:
    """Reshape a value to a row, [1, N, D]: in Caffe2 a link copies elements, regardless of their shape."""
    return value if op.rank(value) == op.rank(row) and op.shape(value)[0] == 1 else reshape_like(op, value, row)


def _as_row_of(op: Op, value: Value, sequence: Value) -> Value:
    """Reshape a value to a row of a sequence, [1, N, ...]."""
    if op.rank(value) == op.rank(sequence) and op.shape(value)[0] == 1:
        return value
    return reshape(op, value, [1, *sizes(op, sequence, 1)])


def _written(op: Op, views: _Views, key: RowKey) -> Value:
    if key not in views.rows:
        op.unsupported(f"the backward step net does not write row t of {key[0]!r}")
    return views.rows[key]


def parameter_gradient(op: Op, views: Scope, links: Container[str], name: str, parameter: Value) -> Value:
    """Return the gradient of a parameter that a step computes, in its shape; ``links`` are the linked blobs."""
    value = views.find(name) if name in links else views.blobs.get(name)
    if value is None:
        op.unsupported(f"the backward step net does not write {name!r}, the gradient of a parameter")
    return value if op.rank(value) == op.rank(parameter) else reshape_like(op, value, parameter)
