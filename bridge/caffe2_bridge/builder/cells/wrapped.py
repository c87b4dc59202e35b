"""The base of cells that wrap another cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from caffe2_bridge.builder.cells.base import Cell, Step, StepInput
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob


@dataclass(frozen=True, kw_only=True)
class WrappedCell(Cell):
    """A cell that delegates to another cell; subclasses override what differs.

    Attributes:
        cell: the cell.
    """

    cell: Cell

    @property
    def state_names(self) -> tuple[str, ...]:
        """See the wrapped cell."""
        return self.cell.state_names

    @property
    def output_size(self) -> int:
        """See the wrapped cell."""
        return self.cell.output_size

    @property
    def output_state(self) -> int:
        """See the wrapped cell."""
        return self.cell.output_state

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """See the wrapped cell."""
        prepared, cell = self.cell.prepare_input(net, sequence)
        return prepared, dataclasses.replace(self, cell=cell)

    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """See the wrapped cell."""
        return self.cell.initial_states(net)

    def step(self, net: Net, given: StepInput) -> Step:
        """See the wrapped cell."""
        return self.cell.step(net, given)

    def step_output(self, net: Net, step: Step) -> Blob:
        """See the wrapped cell."""
        return self.cell.step_output(net, step)

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """See the wrapped cell."""
        return self.cell.sequence_output(net, results)
