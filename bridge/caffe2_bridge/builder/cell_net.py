"""How a cell net is put into its surroundings."""

from __future__ import annotations

from dataclasses import dataclass

from caffe2_bridge.proto.caffe2_pb2 import NetDef


@dataclass(frozen=True, slots=True)
class State:
    """A recurrent state: a blob of T + 1 rows, of which a step reads one and writes the next.

    Attributes:
        initial: the blob that gives row 0.
        cell_input: the cell's name of the row that a step reads.
        cell_output: the cell's name of the row that it writes.
        rows: the name of the blob.
    """

    initial: str
    cell_input: str
    cell_output: str
    rows: str


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How a cell net is put into its surroundings.

    ``inputs`` are pairs of the cell's name of a row and the sequence that has it; ``references`` the blobs that the
    cell reads from outside and that are the same in every step; ``operands`` the inputs of the operator.
    """

    cell: NetDef
    inputs: tuple[tuple[str, str], ...]
    states: tuple[State, ...]
    references: tuple[str, ...]

    @property
    def operands(self) -> tuple[str, ...]:
        """Sequences, then initial states, then references."""
        return (*(blob for _, blob in self.inputs), *(state.initial for state in self.states), *self.references)
