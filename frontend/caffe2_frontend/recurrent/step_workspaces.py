"""What the steps of a RecurrentNetwork leave for its gradient operator.

Real Caffe2 keeps a workspace for each step. Here the loop also returns, stacked over the steps, those blobs of a step
that a backward step net finds; the blob ``step_workspaces`` is known at conversion as an object with these stacks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from caffe2_bridge.control import Alias, RecurrentNetwork, RecurrentSpec
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.recurrent.body_passes.hoist import made_inside, without_unused_rows
from caffe2_frontend.recurrent.step_body import Rows

# The name of a blob of a step; for step workspaces of a recurrent net in the step followed by what they hold.
SavedKey = tuple[str, ...]


@dataclass(frozen=True)
class StepWorkspaces:
    """The object that is known of the blob ``step_workspaces``.

    Attributes:
        states: the rows of each state, by its outer blob.
        stacks: blobs of the step net by name: their values in all steps, [T, ...].
        constants: blobs of the step net that have the same value in every step.
        buffers: all rows of the blobs that the operator created, of a loop that carries whole blobs.
        aliases: the blobs that share memory with rows of these; None where they are not known, in a step of another
            recurrent net.
    """

    states: Mapping[str, Rows]
    stacks: Mapping[SavedKey, Value]
    constants: Mapping[SavedKey, Value]
    buffers: Mapping[str, Value] = field(default_factory=dict)
    aliases: tuple[Alias, ...] | None = None

    def values(self) -> dict[SavedKey, Value]:
        """Return all values that the object holds, by keys of which :meth:`of_values` makes an equal object."""
        found: dict[SavedKey, Value] = {}
        for blob, rows in self.states.items():
            found["initial", blob], found["last", blob] = rows.initial, rows.last
            if rows.steps is not None:
                found["steps", blob] = rows.steps
        found |= {("stack", *key): value for key, value in self.stacks.items()}
        found |= {("buffer", blob): value for blob, value in self.buffers.items()}
        return found | {("constant", *key): value for key, value in self.constants.items()}

    @classmethod
    def of_values(cls, values: Mapping[SavedKey, Value]) -> StepWorkspaces:
        """Return the object that holds values."""
        blobs = [key[1] for key in values if key[0] == "initial"]
        states = {
            blob: Rows(values["initial", blob], values.get(("steps", blob)), values["last", blob]) for blob in blobs
        }
        stacks, constants = (
            {key[1:]: value for key, value in values.items() if key[0] == kind} for kind in ("stack", "constant")
        )
        buffers = {key[1]: value for key, value in values.items() if key[0] == "buffer"}
        return cls(states, stacks, constants, buffers)


def bind_saved(scope: Scope, saved: Mapping[SavedKey, Value]) -> None:
    """Bind blobs of the steps in a scope, among them the step workspaces of recurrent nets in the steps."""
    inner: dict[str, dict[SavedKey, Value]] = {}
    for (name, *rest), value in saved.items():
        if rest:
            inner.setdefault(name, {})[tuple(rest)] = value
        else:
            scope.blobs[name] = value
    for name, values in inner.items():
        scope.bind_object(name, StepWorkspaces.of_values(values))


@dataclass(frozen=True)
class Requests:
    """What gradient operators need of the steps: the states with all their rows, and blobs that the step net writes."""

    states: frozenset[str]
    blobs: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.states or self.blobs)


def requests(op: Op, spec: RecurrentSpec) -> Requests:
    """Return what the gradient operators of the model find in the step workspaces of a RecurrentNetwork."""
    found = op.lowering.reads.steps.get(RecurrentNetwork(op.view).workspaces, frozenset())
    linked = {link.internal: link.external for link in spec.without_scratches().links}
    states = {state.blob for state in spec.states}
    return Requests(
        frozenset(linked[name] for name in found if linked.get(name) in states),
        tuple(sorted(name for name in found & spec.written if name not in linked)),
    )


def saved_values(inside: Op, blobs: Sequence[str]) -> dict[SavedKey, Value]:
    """Return the values that blobs have at the end of a step, inside its body."""
    values: dict[SavedKey, Value] = {}
    for name in blobs:
        value, known = inside.scope.blobs.get(name), inside.scope.find_object(name)
        if value is not None:
            values[name,] = value
        elif isinstance(known, StepWorkspaces):
            values |= {(name, *key): held for key, held in known.values().items()}
        else:
            inside.unsupported(
                f"the backward step net reads blob {name!r} of the step net, which is not a tensor", code="no-tensor"
            )
    return values


@dataclass(frozen=True)
class Saving:
    """How each blob that is saved is known: for all steps outside of the loop, or as a constant, or not yet."""

    stacks: Mapping[SavedKey, Value]
    constants: Mapping[SavedKey, Value]
    left: tuple[SavedKey, ...]

    def finish(self, states: Mapping[str, Rows], steps: Sequence[Value]) -> StepWorkspaces:
        """Return the object, from the rows of states and the stacks that the loop returned for ``left``."""
        return StepWorkspaces(states, {**self.stacks, **dict(zip(self.left, steps, strict=True))}, self.constants)


def take_known(body: Body, first: int, blobs: Sequence[SavedKey]) -> tuple[Body, Saving]:
    """Remove from the stacked values of a body, from index ``first`` on, those that are known outside of the loop.

    These are ``blobs`` that do not depend on a state: the rows of a sequence, or an outer value.
    """
    inside = made_inside(body)
    sequences = dict(zip(body.rows, body.sequences, strict=True))
    stacks: dict[SavedKey, Value] = {}
    constants: dict[SavedKey, Value] = {}
    left: dict[SavedKey, Value] = {}
    for name, value in zip(blobs, body.stacked[first:], strict=True):
        if value in sequences:
            stacks[name] = sequences[value]
        else:
            (left if value in inside else constants)[name] = value
    body = dataclasses.replace(body, stacked=(*body.stacked[:first], *left.values()))
    return without_unused_rows(body), Saving(stacks, constants, tuple(left))
