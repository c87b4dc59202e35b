"""RecurrentNetwork operators: a step net, which runs once for each step of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from caffe2_backend.emit.loops import outer_blobs
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_bridge.control import Alias, Link, State, recurrent_arguments
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.types import FLOAT, INT32

# From the steps of the sequences, the states and the number of the step (int32 [1]): the states after the step.
NetworkStep = Callable[[Sequence[Value], Sequence[Value], Value], Sequence[Value]]


@dataclass(frozen=True)
class Run:
    """A state after every step, [T, N, D], and after the last, [1, N, D].

    Both share the memory of the state, and an argument names them: only what another operator makes of them may be an
    output of the net.
    """

    all: Value
    last: Value


def recurrent_network(
    op: Op, sequences: Sequence[Value], initial: Sequence[Value], step: NetworkStep, first: Value | None = None
) -> list[Run]:
    """Emit a RecurrentNetwork.

    Args:
        op: the node under conversion.
        sequences: float values of shape [T, D...].
        initial: the first value of each state, float [1, N, D], [N, D] or [D].
        step: emits the step net; it gets steps [1, D...] and states [1, N, D].
        first: a value [T, N, ...] of any element type, which gives T and N; the first sequence where it is None.

    Returns:
        The values of each state.
    """
    rows = [op.fresh("row") for _ in sequences]
    before = [op.fresh("before") for _ in initial]
    timestep = op.fresh("timestep")
    with op.inside() as ops:
        states_after = step(_floats(op, rows), _floats(op, before), op.blob(timestep, INT32))
        after = [_own(op, value) for value in states_after]
    formals = [*rows, *before, timestep]
    references = outer_blobs(ops, formals)
    net = NetDef(name=op.fresh("step"), type="simple", op=ops, external_output=after)
    net.external_input.extend([*formals, *references])
    states = [op.fresh("states") for _ in initial]
    first = sequences[0] if first is None else first
    operands = list(dict.fromkeys([first.name, *(value.name for value in (*initial, *sequences)), *references]))
    # A step reads row t of a state and writes row t + 1.
    links = [Link(name, state, 0) for state, name in zip(states, before, strict=True)]
    links += [Link(name, state, 1) for state, name in zip(states, after, strict=True)]
    links += [Link(row, sequence.name, 0) for row, sequence in zip(rows, sequences, strict=True)]
    outputs = [op.fresh("RecurrentNetwork") for _ in range(2 * len(states) + 1)]
    aliases = [Alias(state, name, 1) for state, name in zip(states, outputs[:-1:2], strict=True)]
    aliases += [Alias(state, name, -1) for state, name in zip(states, outputs[1::2], strict=True)]
    starts = [State(state, operands.index(value.name)) for state, value in zip(states, initial, strict=True)]
    arguments = recurrent_arguments(net, timestep, starts, links, aliases, executor=True)
    op.append("RecurrentNetwork", operands, outputs, arguments)
    values = _floats(op, outputs)
    return [Run(values[2 * i], values[2 * i + 1]) for i in range(len(states))]


def _floats(op: Op, names: Sequence[str]) -> list[Value]:
    return [op.blob(name, FLOAT) for name in names]


def _own(op: Op, value: Value) -> str:
    """Return a state after the step as a blob that the step itself writes."""
    written = {name for own in op.emitted.ops for name in own.output}
    return value.name if value.name in written else op.emit("Copy", value).name
