"""Check the arguments of recurrent_net. Each function raises BuildError with the name of the argument."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from caffe2_bridge.builder.cell_net import Recurrence
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_RESULTS_OF_A_STATE = 2  # its rows after each step, and the last of them


def require_pairs(pairs: object, argument: str) -> None:
    """Require a sequence of pairs of blob names."""
    if not isinstance(pairs, Sequence) or isinstance(pairs, str):
        raise BuildError(f"{argument} must be a list of pairs of blobs, not {pairs!r}")
    for pair in pairs:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise BuildError(f"{argument} must hold pairs (blob of the cell, outer blob), not {pair!r}")


def require_distinct_states(recurrence: Recurrence) -> None:
    """Require that no blob of the cell is the row that two states, or a state and the sequence, read or write."""
    if not recurrence.states:
        raise BuildError("initial_cell_inputs must list at least one state")
    sequences = {row for row, _ in recurrence.inputs}
    rows: set[str] = set()
    outputs: dict[str, str] = {}
    for state in recurrence.states:
        if state.cell_input in rows:
            raise BuildError(f"initial_cell_inputs must list each state once, but it lists {state.cell_input!r} twice")
        if state.cell_input in sequences:
            raise BuildError(f"initial_cell_inputs must not list {state.cell_input!r}, the row of a sequence in inputs")
        rows.add(state.cell_input)
        if state.cell_output in outputs:
            pair = f"{outputs[state.cell_output]!r} and {state.cell_input!r}"
            raise BuildError(
                f"links maps both {pair} to {state.cell_output!r}: copy it in the cell to an output for each state"
            )
        outputs[state.cell_output] = state.cell_input


def require_result_indices(indices: object, states: int) -> None:
    """Require a sequence of indices of results: two for each state."""
    count = _RESULTS_OF_A_STATE * states
    form = f"outputs_with_grads must be a list of indices of the {count} results"
    if not isinstance(indices, Collection) or isinstance(indices, str):
        raise BuildError(f"{form}, not {indices!r}")
    seen = set()
    for index in indices:
        if not isinstance(index, int) or not 0 <= index < count:
            raise BuildError(f"{form}: {index!r} must be an integer from 0 to {count - 1}")
        if index in seen:
            raise BuildError(f"{form}: {index} is given twice")
        seen.add(index)


def require_cell_blobs(cell: NetDef, names: object) -> None:
    """Require a collection of blobs that the cell writes."""
    form = "recompute_blobs_on_backward must be a collection of blobs that the cell writes"
    if not isinstance(names, Collection) or isinstance(names, str):
        raise BuildError(f"{form}, not {names!r}")
    written = {name for op in cell.op for name in op.output}
    for name in names:
        if str(name) not in written:
            raise BuildError(f"{form}: it does not write {str(name)!r}")
