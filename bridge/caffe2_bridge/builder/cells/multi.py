"""Cells made of cells: layers, and dropout on an output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from caffe2_bridge.builder.cells.base import Cell, Step, StepInput
from caffe2_bridge.builder.cells.wrapped import WrappedCell
from caffe2_bridge.builder.layers import dropout
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.diagnostics import BuildError


@dataclass(frozen=True, kw_only=True)
class MultiRNNCell(Cell):
    """Layers, all in one step: each reads the output of the one before.

    Attributes:
        cells: from the input to the output.
        residual_output_layers: indices of layers to whose output their input is added. Not the first: its input is
            prepared outside of the steps.
    """

    cells: tuple[Cell, ...]
    residual_output_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.cells:
            raise BuildError("a cell of layers has at least one layer")
        if strange := [layer for layer in self.residual_output_layers if not 0 < layer < len(self.cells)]:
            raise BuildError(f"layer {strange[0]} of {len(self.cells)} cannot have its input added to its output")

    @property
    def state_names(self) -> tuple[str, ...]:
        """See Cell: ``<name>/layer_<i>/`` in front of those of layer i."""
        return tuple(
            self.scoped(f"layer_{layer}/{name}") for layer, cell in enumerate(self.cells) for name in cell.state_names
        )

    @property
    def output_size(self) -> int:
        """That of the last layer."""
        return self.cells[-1].output_size

    @property
    def output_state(self) -> int:
        """That of the last layer."""
        return sum(len(cell.state_names) for cell in self.cells[:-1]) + self.cells[-1].output_state

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """The first layer's."""
        blob = net.blob(sequence)
        with net.name_scope(self.name):
            prepared, first = self.cells[0].prepare_input(net, blob)
        return prepared, dataclasses.replace(self, cells=(first, *self.cells[1:]))

    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """Those of the layers."""
        states: list[Blob] = []
        for layer, cell in enumerate(self.cells):
            with self._layer_scope(net, layer):
                states.extend(cell.initial_states(net))
        return tuple(states)

    def step(self, net: Net, given: StepInput) -> Step:
        """See Cell; the extra inputs are the first layer's."""
        steps: list[Step] = []
        layer_input, extra = given.input_t, given.extra
        for layer, (whole, states) in enumerate(zip(self.cells, self._by_layer(given.states), strict=True)):
            with self._layer_scope(net, layer):
                prepared, cell = whole.prepare_input(net, layer_input) if layer else (layer_input, whole)
                step = cell.step(net, dataclasses.replace(given, input_t=prepared, states=states, extra=extra))
                if layer + 1 < len(self.cells):
                    output = cell.step_output(net, step)
                    if layer in self.residual_output_layers:
                        name = self.scoped(f"residual_output_{layer}")
                        output = net.op("Sum", (output, layer_input), name)
                    layer_input, extra = output, ()
            steps.append(step)
        return Step(
            tuple(state for step in steps for state in step.states),
            tuple(blob for step in steps for blob in step.recompute),
            tuple(steps),
        )

    def step_output(self, net: Net, step: Step) -> Blob:
        """The last layer's output, plus those that reach it through residual connections alone."""
        outputs = [self.cells[layer].step_output(net, step.parts[layer]) for layer in self._connected_layers()]
        return self._added(net, outputs, "residual_output")

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """The same for all steps."""
        by_layer = list(self._by_layer(results, per_state=2))
        outputs = [self.cells[layer].sequence_output(net, by_layer[layer]) for layer in self._connected_layers()]
        return self._added(net, outputs, "residual_output_sequence")

    def _added(self, net: Net, outputs: Sequence[Blob], name: str) -> Blob:
        return outputs[0] if len(outputs) == 1 else net.op("Sum", outputs, self.scoped(name))

    def _connected_layers(self) -> list[int]:
        last = len(self.cells) - 1
        first = last
        while first in self.residual_output_layers:
            first -= 1
        return list(range(first, last + 1))

    def _by_layer(self, blobs: Sequence[Blob], per_state: int = 1) -> Iterator[tuple[Blob, ...]]:
        start = 0
        for cell in self.cells:
            end = start + per_state * len(cell.state_names)
            yield tuple(blobs[start:end])
            start = end

    @contextmanager
    def _layer_scope(self, net: Net, layer: int) -> Iterator[None]:
        with net.name_scope(self.name), net.name_scope(f"layer_{layer}"):
            yield


@dataclass(frozen=True, kw_only=True)
class DropoutCell(WrappedCell):
    """A cell with dropout on its output; the state that goes to the next step is left as it is.

    Attributes:
        cell: the cell.
        ratio: the share of elements set to zero.
        is_test: whether nothing is set to zero.
    """

    ratio: float
    is_test: bool

    def __post_init__(self) -> None:
        if not 0 <= self.ratio < 1:
            raise BuildError(f"the ratio of dropout must be at least 0 and below 1, not {self.ratio}")

    def step_output(self, net: Net, step: Step) -> Blob:
        """The cell's, with dropout."""
        return self._dropped(net, self.cell.step_output(net, step))

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """The cell's, with dropout."""
        return self._dropped(net, self.cell.sequence_output(net, results))

    def _dropped(self, net: Net, output: Blob) -> Blob:
        if self.forward_only or not self.ratio:
            return output
        with net.name_scope(self.name):
            name = next(name for name in _mask_names(output) if not net.defines(name))
            return dropout(net, output, name, ratio=self.ratio, is_test=self.is_test)


def _mask_names(output: str) -> Iterable[str]:
    number = 0
    while True:
        yield f"{output}_with_dropout_mask{number}"
        number += 1
