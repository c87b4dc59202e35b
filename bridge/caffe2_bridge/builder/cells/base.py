"""The interface of recurrent cells: one step, and the run over a sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from caffe2_bridge.builder.layers import concat
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.recurrent import recurrent_net
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.diagnostics import BuildError


@dataclass(frozen=True, slots=True)
class StepInput:
    """The inputs of one step.

    Attributes:
        input_t: the prepared input, [1, N, D].
        seq_lengths: the length of each sequence, int32 [N]; None if all have length T.
        states: the states before the step, [1, N, D] each.
        timestep: the step index, int32 [1].
        extra: further inputs, [1, N, D], each with its D; they are not prepared.
    """

    input_t: Blob
    seq_lengths: Blob | None
    states: tuple[Blob, ...]
    timestep: Blob
    extra: tuple[tuple[Blob, int], ...] = ()

    @property
    def lengths(self) -> tuple[Blob, ...]:
        """The operands of a unit that masks by length: the lengths, if given, and the step index."""
        return (self.timestep,) if self.seq_lengths is None else (self.seq_lengths, self.timestep)


@dataclass(frozen=True, slots=True)
class Step:
    """The outputs of one step.

    Attributes:
        states: the states after the step.
        recompute: blobs that the backward pass may recompute instead of storing them.
        parts: the steps of the cells within the cell.
        hidden: the hidden state for a cell that wraps this one, if it is not one of the states.
        attention_weights: [N, S, 1], of an attention cell with S encoder outputs.
    """

    states: tuple[Blob, ...]
    recompute: tuple[Blob, ...] = ()
    parts: tuple[Step, ...] = ()
    hidden: Blob | None = None
    attention_weights: Blob | None = None


@dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """A description of a recurrent cell, which adds operators and parameters to the nets that it is applied to.

    Attributes:
        name: the name scope of its blobs; may be empty.
        forward_only: whether to build no gradient.
    """

    name: str = ""
    forward_only: bool = False

    def scoped(self, name: str) -> str:
        """Return ``<name of the cell>/<name>``."""
        return f"{self.name}/{name}" if self.name else name

    @property
    @abstractmethod
    def state_names(self) -> tuple[str, ...]:
        """Names of the states, prefixed with the cell's name."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Last dim of the output."""

    @property
    def output_state(self) -> int:
        """Index of the state that is the output, or from which the output is computed."""
        return 0

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """Compute the part of all steps that depends on the input only, from [T, N, I] to [T, N, D].

        Returns the prepared sequence, and the cell whose ``step`` reads it.
        """
        return net.blob(sequence), self

    @abstractmethod
    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """Return the default initial states: parameters that are initialized with zeros, or zeros."""

    @abstractmethod
    def step(self, net: Net, given: StepInput) -> Step:
        """Add the operators of one step to ``net``."""

    def step_output(self, net: Net, step: Step) -> Blob:
        """Return the output of one step, [1, N, output_size]; adds operators if it is not a state."""
        del net
        return step.states[self.output_state]

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """Return the output of all steps, [T, N, output_size].

        ``results`` are, for each state, its rows and its last row.
        """
        del net
        return results[2 * self.output_state]

    def apply(
        self, net: Net, input_t: str, seq_lengths: str | None, states: Sequence[str], timestep: str
    ) -> tuple[Blob, tuple[Blob, ...]]:
        """Prepare the input of one step and add the step. Returns its output and the states after it.

        Raises BuildError if the number of states is not that of the cell.
        """
        prepared, cell = self.prepare_input(net, input_t)
        step = cell.step(net, cell.step_input(net, prepared, seq_lengths, states, timestep))
        return cell.step_output(net, step), step.states

    def apply_over_sequence(
        self,
        net: Net,
        inputs: str,
        seq_lengths: str | None = None,
        initial_states: Sequence[str] | None = None,
        outputs_with_grads: Sequence[int] | None = None,
    ) -> tuple[Blob, tuple[Blob, ...]]:
        """Run the cell over a sequence with a RecurrentNetwork.

        Args:
            net: the net that the operators are added to.
            inputs: the sequence, [T, N, I].
            seq_lengths: the length of each sequence of the batch, int32 [N]; None if all are T.
            initial_states: a blob for each state, [1, N, D], [N, D] or [D]; by default those of the cell.
            outputs_with_grads: indices of the results that receive a gradient; by default that of the output state's
                rows.

        Returns:
            The output, [T, N, output_size], and the results: for each state its rows [T, N, D] and its last row
            [1, N, D].

        Raises:
            BuildError: the number of initial states is not that of the cell, or the cell cannot be differentiated.
        """
        initial = self.starting_states(net, initial_states)
        prepared, cell = self.prepare_input(net, inputs)
        step_net = net.child(self.name or "step")
        input_t, timestep = step_net.add_external_input("input_t", "timestep")
        previous = step_net.add_external_input(*(f"{name}_prev" for name in self.state_names))
        step = cell.step(step_net, cell.step_input(step_net, input_t, seq_lengths, previous, timestep))
        step_net.add_external_output(*step.states)
        results = recurrent_net(
            net,
            step_net,
            inputs=[(input_t, prepared)],
            initial_cell_inputs=list(zip(previous, initial, strict=True)),
            links=dict(zip(previous, step.states, strict=True)),
            timestep=timestep,
            scope=self.name or None,
            outputs_with_grads=(2 * self.output_state,) if outputs_with_grads is None else outputs_with_grads,
            recompute_blobs_on_backward=step.recompute,
            forward_only=self.forward_only,
        )
        return cell.sequence_output(net, results), results

    def starting_states(self, net: Net, states: Sequence[str] | None) -> tuple[Blob, ...]:
        """Return the given initial states, or the default ones. Raises BuildError if their number is wrong."""
        if states is None:
            return self.initial_states(net)
        self._require_states(states)
        return tuple(map(net.blob, states))

    def step_input(
        self, net: Net, input_t: str, seq_lengths: str | None, states: Sequence[str], timestep: str
    ) -> StepInput:
        """Make the inputs of a step, with full names, so that name scopes that the cell enters do not affect them."""
        self._require_states(states)
        lengths = None if seq_lengths is None else net.blob(seq_lengths)
        return StepInput(net.blob(input_t), lengths, tuple(map(net.blob, states)), net.blob(timestep))

    def _require_states(self, states: Sequence[str]) -> None:
        if len(states) != len(self.state_names):
            cell = f"cell {self.name!r}" if self.name else type(self).__name__
            raise BuildError(f"{cell} must get {len(self.state_names)} states, not {len(states)}")


def hidden_input(net: Net, given: StepInput, size: int) -> tuple[Blob, int]:
    """Concatenate the hidden state with the extra inputs, in the cell's scope. Returns the result and its size."""
    if not given.extra:
        return given.states[0], size
    blobs = (given.states[0], *(blob for blob, _ in given.extra))
    joined = concat(net, blobs, "gates_concatenated_input_t", axis=2)
    return joined, size + sum(extra for _, extra in given.extra)
