"""What the steps of a RecurrentNetwork leave for its gradient operator.

Real Caffe2 keeps a workspace for each step. Here the loop also returns, stacked over the steps, those blobs of a step
that a backward step net finds; the blob ``step_workspaces`` is known at conversion as an object with these stacks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from caffe2_bridge.control import RecurrentSpec
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.hoist import made_inside, without_unused_rows
from caffe2_frontend.recurrent.step_body import Rows


@dataclass(frozen=True)
class StepWorkspaces:
    """The object that is known of the blob ``step_workspaces``.

    Attributes:
        states: the rows of each state, by its outer blob.
        stacks: blobs of the step net by name: their values in all steps, [T, ...].
        constants: blobs of the step net that have the same value in every step.
    """

    states: Mapping[str, Rows]
    stacks: Mapping[str, Value]
    constants: Mapping[str, Value]


@dataclass(frozen=True)
class NoStepWorkspaces:
    """What is known of the blob where the loop does not keep blobs of its steps, with the reason."""

    reason: str


@dataclass(frozen=True)
class Requests:
    """What gradient operators need of the steps: the states with all their rows, and blobs that the step net writes."""

    states: frozenset[str]
    blobs: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.states or self.blobs)


def requests(op: Op, spec: RecurrentSpec) -> Requests:
    """Return what the gradient operators of the model find in the step workspaces of a RecurrentNetwork."""
    found = op.lowering.workspace_reads.get(op.view.outputs[-1] if op.view.outputs else "", frozenset())
    linked = {link.internal: link.external for link in spec.links}
    states = {state.blob for state in spec.states}
    return Requests(
        frozenset(linked[name] for name in found if linked.get(name) in states),
        tuple(sorted(name for name in found & spec.written if name not in linked)),
    )


def saved_values(inside: Op, blobs: Sequence[str]) -> list[Value]:
    """Return the values that blobs have at the end of a step, inside its body."""
    values = []
    for name in blobs:
        value = inside.scope.blobs.get(name)
        if value is None:
            inside.unsupported(
                f"the backward step net reads blob {name!r} of the step net, which is not a tensor", code="no-tensor"
            )
        values.append(value)
    return values


@dataclass(frozen=True)
class Saving:
    """How each blob that is saved is known: for all steps outside of the loop, or as a constant, or not yet."""

    stacks: Mapping[str, Value]
    constants: Mapping[str, Value]
    left: tuple[str, ...]

    def finish(self, states: Mapping[str, Rows], steps: Sequence[Value]) -> StepWorkspaces:
        """Return the object, from the rows of states and the stacks that the loop returned for ``left``."""
        return StepWorkspaces(states, {**self.stacks, **dict(zip(self.left, steps, strict=True))}, self.constants)


def take_known(body: Body, first: int, blobs: Sequence[str]) -> tuple[Body, Saving]:
    """Remove from the stacked values of a body, from index ``first`` on, those that are known outside of the loop.

    These are ``blobs`` that do not depend on a state: the rows of a sequence, or an outer value.
    """
    inside = made_inside(body)
    sequences = dict(zip(body.rows, body.sequences, strict=True))
    stacks: dict[str, Value] = {}
    constants: dict[str, Value] = {}
    left: dict[str, Value] = {}
    for name, value in zip(blobs, body.stacked[first:], strict=True):
        if value in sequences:
            stacks[name] = sequences[value]
        else:
            (left if value in inside else constants)[name] = value
    body = dataclasses.replace(body, stacked=(*body.stacked[:first], *left.values()))
    return without_unused_rows(body), Saving(stacks, constants, tuple(left))
