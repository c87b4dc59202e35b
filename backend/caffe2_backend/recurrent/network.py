"""RecurrentNetwork operators: a step net, run once for each row of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from caffe2_backend.lowering.op import Op
from caffe2_bridge.control import Alias, Link, State, recurrent_arguments
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# From the operator inside the step, the rows of the sequences, the states and the step's number (int32, [1]): the
# states after the step.
Step = Callable[[Op, Sequence[str], Sequence[str], str], Sequence[str]]


@dataclass(frozen=True)
class Run:
    """What a state was after every step, [T, N, D], and after the last, [1, N, D].

    They share the memory of the state, and an argument names them: what is given out is what an operator makes of them.
    """

    all: str
    last: str


def recurrent_network(
    op: Op, sequences: Sequence[str], initial: Sequence[str], step: Step, first: str | None = None
) -> list[Run]:
    """Emit a RecurrentNetwork.

    Args:
        op: the node under conversion.
        sequences: float blobs of shape [T, D...].
        initial: the first value of each state, float [1, N, D], [N, D] or [D].
        step: builds the step net; a step sees rows [1, D...] and states [1, N, D].
        first: a blob [T, N, ...] of any element type; the first sequence where it is None.

    Returns:
        For each state what it was.
    """
    first = sequences[0] if first is None else first
    inside = op.inside()
    rows = [op.fresh("row") for _ in sequences]
    before = [op.fresh("before") for _ in initial]
    timestep = op.fresh("timestep")
    after = [_own(inside, blob) for blob in step(inside, rows, before, timestep)]
    net = NetDef(name=op.fresh("step"), type="simple", op=inside.made.ops)
    made = {name for own in inside.made.ops for name in own.output}
    known = {*rows, *before, timestep}
    references = list(dict.fromkeys(name for own in inside.made.ops for name in own.input if name not in made | known))
    net.external_input.extend([*rows, *before, timestep, *references])
    net.external_output.extend(after)
    states = [op.fresh("states") for _ in initial]
    operands = list(dict.fromkeys([first, *initial, *sequences, *references]))
    links = [
        link
        for state, old, new in zip(states, before, after, strict=True)
        for link in (Link(old, state, 0), Link(new, state, 1))
    ]
    links += [Link(row, sequence, 0) for row, sequence in zip(rows, sequences, strict=True)]
    results = [op.fresh("RecurrentNetwork") for _ in range(2 * len(states) + 1)]
    aliases = [
        alias
        for state, every, last in zip(states, results[:-1:2], results[1::2], strict=True)
        for alias in (Alias(state, every, 1), Alias(state, last, -1))
    ]
    initials = [State(state, operands.index(name)) for state, name in zip(states, initial, strict=True)]
    arguments = recurrent_arguments(net, timestep, initials, links, aliases, executor=True)
    op.made.ops.append(make_operator("RecurrentNetwork", operands, results, arguments))
    return [Run(results[2 * i], results[2 * i + 1]) for i in range(len(states))]


def _own(inside: Op, blob: str) -> str:
    """A state after the step as a blob that the step itself writes, once."""
    written = [name for own in inside.made.ops for name in own.output]
    return blob if blob in written else inside.emit("Copy", blob)
