"""Cells composed of cells: stacked layers, and dropout on an output."""

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
    """Stacked cells: each layer reads the output of the previous one in the same step.

    Attributes:
        cells: the layers, from the input to the output.
        residual_output_layers: indices of layers whose input is added to their output; not the first layer, whose
            input is prepared outside the steps.
    """

    cells: tuple[Cell, ...]
    residual_output_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.cells:
            raise BuildError("cells must hold at least one layer")
        if invalid := [layer for layer in self.residual_output_layers if not 0 < layer < len(self.cells)]:
            raise BuildError(
                f"residual_output_layers must exclude layer 0 and be below {len(self.cells)}, not {invalid[0]}"
            )

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states of all layers; those of layer i are prefixed with ``<name>/layer_<i>/``."""
        return tuple(
            self.scoped(f"layer_{layer}/{name}") for layer, cell in enumerate(self.cells) for name in cell.state_names
        )

    @property
    def output_size(self) -> int:
        """Size of the last layer's output."""
        return self.cells[-1].output_size

    @property
    def output_state(self) -> int:
        """Index of the last layer's output state."""
        return sum(len(cell.state_names) for cell in self.cells[:-1]) + self.cells[-1].output_state

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """Prepare the input of the first layer; the others prepare theirs in each step."""
        blob = net.blob(sequence)
        with net.name_scope(self.name):
            prepared, first = self.cells[0].prepare_input(net, blob)
        return prepared, dataclasses.replace(self, cells=(first, *self.cells[1:]))

    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """Return the initial states of all layers."""
        states: list[Blob] = []
        for layer, cell in enumerate(self.cells):
            with self._layer_scope(net, layer):
                states.extend(cell.initial_states(net))
        return tuple(states)

    def step(self, net: Net, given: StepInput) -> Step:
        """Add a step of each layer; the extra inputs go to the first layer."""
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
        """Sum the output of the last layer and those that reach it through residual connections only."""
        outputs = [self.cells[layer].step_output(net, step.parts[layer]) for layer in self._connected_layers()]
        return self._added(net, outputs, "residual_output")

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """Sum these outputs of all steps."""
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
    """A cell with dropout on its output, but not on the state that the next step reads.

    Attributes:
        cell: the cell.
        ratio: the fraction of elements that are set to zero.
        is_test: whether dropout has no effect.
    """

    ratio: float
    is_test: bool

    def __post_init__(self) -> None:
        if not 0 <= self.ratio < 1:
            raise BuildError(f"ratio must be in [0, 1), not {self.ratio}")

    def step_output(self, net: Net, step: Step) -> Blob:
        """Return the cell's output of one step, with dropout."""
        return self._dropped(net, self.cell.step_output(net, step))

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """Return the cell's output of all steps, with dropout."""
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
