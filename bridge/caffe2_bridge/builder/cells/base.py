"""What every recurrent cell is: one step, and its run over a sequence."""

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
    """What one step reads.

    Attributes:
        input_t: the prepared input, [1, N, D].
        seq_lengths: the length of each sequence, int32 [N]; None where all have the length of the batch.
        states: the states before the step, [1, N, D] each.
        timestep: the number of the step, int32 [1].
        extra: further inputs, [1, N, D], with their D; they are not prepared.
    """

    input_t: Blob
    seq_lengths: Blob | None
    states: tuple[Blob, ...]
    timestep: Blob
    extra: tuple[tuple[Blob, int], ...] = ()

    @property
    def lengths(self) -> tuple[Blob, ...]:
        """The operands of a unit that masks by length: the lengths, where there are any, and the step's number."""
        return (self.timestep,) if self.seq_lengths is None else (self.seq_lengths, self.timestep)


@dataclass(frozen=True, slots=True)
class Step:
    """What one step makes.

    Attributes:
        states: the states after the step.
        recompute: blobs that the backward pass may compute again rather than keep.
        parts: the steps of the cells inside of the cell.
        hidden: what a wrapping cell takes for the hidden state, where it is no state.
        attention_weights: [N, S, 1], of a cell that attends to S encoder outputs.
    """

    states: tuple[Blob, ...]
    recompute: tuple[Blob, ...] = ()
    parts: tuple[Step, ...] = ()
    hidden: Blob | None = None
    attention_weights: Blob | None = None


@dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """A recurrent cell: a description; operators and parameters are added to the net that it is applied to.

    Attributes:
        name: the name scope of its blobs; may be empty.
        forward_only: whether it is never trained: no gradient is built.
    """

    name: str = ""
    forward_only: bool = False

    def scoped(self, name: str) -> str:
        """``<name of the cell>/<name>``."""
        return f"{self.name}/{name}" if self.name else name

    @property
    @abstractmethod
    def state_names(self) -> tuple[str, ...]:
        """Names of the states, with the cell's name in front."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """The last dim of the output."""

    @property
    def output_state(self) -> int:
        """The index of the state that is the output, or that the output is made of."""
        return 0

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """What of the steps depends on the input alone, computed once: [T, N, I] to [T, N, D].

        Returns it, and the cell that the steps are to be taken with.
        """
        return net.blob(sequence), self

    @abstractmethod
    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """Initial states of zeros: parameters where they can be learned."""

    @abstractmethod
    def step(self, net: Net, given: StepInput) -> Step:
        """Add the operators of one step to ``net``."""

    def step_output(self, net: Net, step: Step) -> Blob:
        """The output of one step, [1, N, output_size]; operators are added to ``net`` where it is no state."""
        del net
        return step.states[self.output_state]

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """The output of all steps, [T, N, output_size], from the rows and the last row of each state."""
        del net
        return results[2 * self.output_state]

    def apply(
        self, net: Net, input_t: str, seq_lengths: str | None, states: Sequence[str], timestep: str
    ) -> tuple[Blob, tuple[Blob, ...]]:
        """Add one step, its input not prepared yet. Returns its output and the states after it.

        Raises BuildError where the number of states is not the cell's.
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
        """Run the cell over a sequence, in one RecurrentNetwork operator.

        Args:
            net: the net that the operators are added to.
            inputs: the sequence, [T, N, I].
            seq_lengths: the length of each sequence of the batch, int32 [N]; None where all are T.
            initial_states: a blob for each state, [1, N, D], [N, D] or [D]; the cell's own where it is None.
            outputs_with_grads: indices of the results that receive a gradient; the rows of the output state's by
                default.

        Returns:
            The output, [T, N, output_size], and the results: for each state its rows [T, N, D] and its last row
            [1, N, D].

        Raises:
            BuildError: the number of initial states is not the cell's.
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
        """The initial states given, or the cell's own. Raises BuildError where they are not as many as its states."""
        if states is None:
            return self.initial_states(net)
        self._require_states(states)
        return tuple(map(net.blob, states))

    def step_input(
        self, net: Net, input_t: str, seq_lengths: str | None, states: Sequence[str], timestep: str
    ) -> StepInput:
        """What a step reads, by whole names: scopes that the cell enters do not change them."""
        self._require_states(states)
        lengths = None if seq_lengths is None else net.blob(seq_lengths)
        return StepInput(net.blob(input_t), lengths, tuple(map(net.blob, states)), net.blob(timestep))

    def _require_states(self, states: Sequence[str]) -> None:
        if len(states) != len(self.state_names):
            place = f"cell {self.name!r}" if self.name else type(self).__name__
            raise BuildError(f"{place} has {len(self.state_names)} states, not {len(states)}")


def hidden_input(net: Net, given: StepInput, size: int) -> tuple[Blob, int]:
    """The hidden state with the extra inputs after it, and the size of both; within the cell's scope."""
    if not given.extra:
        return given.states[0], size
    blobs = (given.states[0], *(blob for blob, _ in given.extra))
    joined = concat(net, blobs, "gates_concatenated_input_t", axis=2)
    return joined, size + sum(extra for _, extra in given.extra)
