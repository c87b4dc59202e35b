"""Describe how a cell net is linked to the blobs of a RecurrentNetwork."""

from __future__ import annotations

from dataclasses import dataclass

from caffe2_bridge.proto.caffe2_pb2 import NetDef


@dataclass(frozen=True, slots=True)
class State:
    """A recurrent state: a blob of T + 1 rows; step t reads row t and writes row t + 1.

    Attributes:
        initial: the blob with the initial value, row 0.
        cell_input: the cell's name for the row that a step reads.
        cell_output: the cell's name for the row that a step writes.
        rows: the name of the blob of all rows.
    """

    initial: str
    cell_input: str
    cell_output: str
    rows: str


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A cell net and its links.

    Attributes:
        cell: the net of one step.
        inputs: for each input sequence, the cell's name for a row, and the sequence.
        states: the recurrent states.
        references: the outer blobs that the cell reads in every step.
    """

    cell: NetDef
    inputs: tuple[tuple[str, str], ...]
    states: tuple[State, ...]
    references: tuple[str, ...]

    @property
    def operands(self) -> tuple[str, ...]:
        """The inputs of the operator: sequences, initial states, references."""
        return (*(blob for _, blob in self.inputs), *(state.initial for state in self.states), *self.references)
