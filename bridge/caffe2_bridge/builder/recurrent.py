"""Add RecurrentNetwork operators, which run a cell net once per step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from caffe2_bridge import control
from caffe2_bridge.builder.backward_step import backward_arguments
from caffe2_bridge.builder.cell_net import Recurrence, State
from caffe2_bridge.builder.net import Net, copy_net
from caffe2_bridge.builder.recurrent_checks import (
    require_cell_blobs,
    require_distinct_states,
    require_pairs,
    require_result_indices,
)
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_DEFAULT_TIMESTEP = "timestep"


def recurrent_net(
    net: Net,
    cell_net: Net | Message | bytes,
    inputs: Sequence[tuple[str, str]],
    initial_cell_inputs: Sequence[tuple[str, str]],
    links: Mapping[str, str],
    timestep: str | None = None,
    scope: str | None = None,
    outputs_with_grads: Sequence[int] = (0,),
    recompute_blobs_on_backward: Collection[str] | None = None,
    forward_only: bool = False,
    *,
    step_net_as_text: bool = False,
) -> tuple[Blob, ...]:
    """Add an operator that runs ``cell_net`` once for each row of a sequence.

    All names are full names; the name scope is not applied.

    Args:
        net: the net that the operator is added to.
        cell_net: the net of one step, which is not changed; its external outputs are the outputs of a step.
        inputs: one pair of the cell's name for a row, [1, N, D...], and the sequence, [T, N, D...].
        initial_cell_inputs: for each state the cell's name for the row that it reads, [1, N, D], and the blob with its
            initial value, [1, N, D], [N, D] or [D].
        links: for each of these cell inputs, the cell output that is its value in the next step.
        timestep: the cell's name for the step index (int32, [1], on the CPU); by default ``timestep``.
        scope: the prefix of the names of states and step workspaces; by default a unique one.
        outputs_with_grads: indices of the results that receive a gradient.
        recompute_blobs_on_backward: blobs of the cell that the backward pass recomputes instead of storing them.
        forward_only: omit the backward step net, so that a runtime does not store the blobs of each step.
        step_net_as_text: store the step nets as protobuf text in a string argument, for older runtimes.

    Returns:
        For each state its rows after each step, [T, N, D], then its last row, [1, N, D].

    Raises:
        BuildError: there is not exactly one sequence, a link is missing or names a blob that the cell does not write, a
            state is given twice, an argument is not of its form or refers to a result or a blob that does not exist, or
            the cell cannot be differentiated.
        NetFormatError: ``cell_net`` is not a NetDef.
    """
    require_pairs(inputs, "inputs")
    require_pairs(initial_cell_inputs, "initial_cell_inputs")
    if len(inputs) != 1:
        raise BuildError(f"a recurrent net must have one input sequence, not {len(inputs)}")
    recomputed = () if recompute_blobs_on_backward is None else recompute_blobs_on_backward
    prefix = net.next_name("recurrent") if scope is None else scope
    cell = copy_net(cell_net, "cell net")
    recurrence = Recurrence(
        cell=cell,
        inputs=tuple((str(row), str(sequence)) for row, sequence in inputs),
        states=tuple(_state(cell, row, initial, links, prefix) for row, initial in initial_cell_inputs),
        references=_references(cell, inputs, initial_cell_inputs, timestep),
    )
    require_distinct_states(recurrence)
    require_result_indices(outputs_with_grads, len(recurrence.states))
    require_cell_blobs(cell, recomputed)
    backward = {} if forward_only else backward_arguments(recurrence, tuple(outputs_with_grads), recomputed)
    cell.type = "simple"
    arguments = {
        **_forward_arguments(recurrence, _DEFAULT_TIMESTEP if timestep is None else str(timestep)),
        **backward,
    }
    if step_net_as_text:
        arguments = {name: _as_text(value) for name, value in arguments.items()}
    results = tuple(Blob(state.cell_output + end) for state in recurrence.states for end in ("_all", "_last"))
    workspaces = net.unique_name(
        f"{prefix}/step_workspaces" if scope is not None else Blob(f"{prefix}/step_workspaces")
    )
    net.op("RecurrentNetwork", tuple(map(Blob, recurrence.operands)), (*results, workspaces), **arguments)
    return results


def _state(cell: NetDef, row: str, initial: str, links: Mapping[str, str], prefix: str) -> State:
    if row not in links:
        raise BuildError(
            f"{cell.name or 'cell net'}: links must map {str(row)!r} to the output that is its value in the next step"
        )
    written = {name for op in cell.op for name in op.output}
    output = str(links[row])
    if output not in written:
        raise BuildError(f"{cell.name or 'cell net'} must write {output!r}, to which {str(row)!r} is linked")
    return State(str(initial), str(row), output, f"{prefix}/{row}_states")


def _references(
    cell: NetDef,
    inputs: Sequence[tuple[str, str]],
    initial_cell_inputs: Sequence[tuple[str, str]],
    timestep: str | None,
) -> tuple[str, ...]:
    # As in Caffe2, the rows of sequences are excluded but the sequences are not: a cell may read a whole sequence.
    known = {str(name) for name, _ in inputs}
    known.update(str(name) for pair in initial_cell_inputs for name in pair)
    known.add(_DEFAULT_TIMESTEP if timestep is None else str(timestep))
    return tuple(dict.fromkeys(name for name in cell.external_input if name not in known))


def _forward_arguments(recurrence: Recurrence, timestep: str) -> dict[str, Any]:
    operands = recurrence.operands
    states, links, aliases = [], [], []
    for state in recurrence.states:
        states.append(control.State(state.rows, operands.index(state.initial)))
        links += [control.Link(state.cell_input, state.rows, 0), control.Link(state.cell_output, state.rows, 1)]
        aliases += [
            control.Alias(state.rows, state.cell_output + end, offset) for end, offset in (("_all", 1), ("_last", -1))
        ]
    links += [control.Link(row, sequence, 0) for row, sequence in recurrence.inputs]
    return control.recurrent_arguments(recurrence.cell, timestep, states, links, aliases, executor=True)


def _as_text(value: Any) -> Any:
    return text_format.MessageToString(value) if isinstance(value, NetDef) else value
