"""Cells whose only state is the hidden state: BasicRNN and GRU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Self

from caffe2_bridge.builder.cells.base import Cell, Step, StepInput, hidden_input
from caffe2_bridge.builder.initializers import ZEROS
from caffe2_bridge.builder.layers import fc
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.diagnostics import BuildError

_ACTIVATIONS: Final = {"tanh": "Tanh", "relu": "Relu"}


@dataclass(frozen=True, kw_only=True)
class HiddenCell(Cell):
    """The base of cells whose only state is the hidden state.

    Attributes:
        input_size: the last dim of the input sequence.
        hidden_size: the last dim of the state and of the output.
        drop_states: whether the state after the end of a sequence is zero instead of the last one.
    """

    input_size: int
    hidden_size: int
    drop_states: bool = False

    @property
    def state_names(self) -> tuple[str, ...]:
        """See Cell."""
        return (self.scoped("hidden_t"),)

    @property
    def output_size(self) -> int:
        """See Cell."""
        return self.hidden_size

    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """Return the parameter ``initial_hidden_state`` [hidden_size]."""
        with net.name_scope(self.name):
            return (net.param("initial_hidden_state", (self.hidden_size,), ZEROS),)

    def _projected(self, net: Net, sequence: str, size: int) -> Blob:
        blob = net.blob(sequence)
        with net.name_scope(self.name):
            return fc(net, blob, "i2h", self.input_size, size, axis=2)


@dataclass(frozen=True, kw_only=True)
class BasicRNNCell(HiddenCell):
    """A basic RNN: ``h' = activation(W h + b + i2h(x))``.

    Attributes:
        activation: ``tanh`` or ``relu``.
    """

    activation: Literal["tanh", "relu"] = "tanh"

    def __post_init__(self) -> None:
        if self.activation not in _ACTIVATIONS:
            raise BuildError(f"activation must be {' or '.join(_ACTIVATIONS)}, not {self.activation!r}")

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """See Cell."""
        return self._projected(net, sequence, self.hidden_size), self

    def step(self, net: Net, given: StepInput) -> Step:
        """See Cell."""
        previous = given.states[0]
        with net.name_scope(self.name):
            joined, size = hidden_input(net, given, self.hidden_size)
            gates = fc(net, joined, "gates_t", size, self.hidden_size, axis=2)
            net.op("Sum", (gates, given.input_t), gates)
            hidden = net.op(_ACTIVATIONS[self.activation], gates, "hidden_t")
            if given.seq_lengths is not None:
                hidden = self._masked(net, hidden, previous, given)
        return Step((hidden,))

    def _masked(self, net: Net, hidden: Blob, previous: Blob, given: StepInput) -> Blob:
        """Replace the hidden state of sequences that have ended by the previous one, or by zero."""
        timestep = net.op("CopyFromCPUInput", given.timestep, "timestep_gpu")
        ends = (given.seq_lengths or Blob(), timestep)
        running = net.op("GT", ends, "valid_b", broadcast=1)
        ended = net.op("LE", ends, "invalid_b", broadcast=1)
        valid = net.op("Cast", running, "valid", to="float")
        invalid = net.op("Cast", ended, "invalid", to="float")
        kept = net.op("Mul", (hidden, valid), "hidden_valid", broadcast=1, axis=1)
        if self.drop_states:
            return kept
        held = net.op("Mul", (previous, invalid), "hidden_invalid", broadcast=1, axis=1)
        return net.op("Add", (kept, held), hidden)


@dataclass(frozen=True, kw_only=True)
class GRUCell(HiddenCell):
    """A GRU: ``r, u = sigmoid(FC(h) + x_r), sigmoid(FC(h) + x_u); h' = u * h + (1 - u) * tanh(o + x_o)``.

    ``o = FC(r * h)``, or ``r * FC(h)`` with ``linear_before_reset``. ``i2h`` concatenates the three projections of the
    input in the order reset, update, output.
    """

    linear_before_reset: bool = False

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """See Cell."""
        return self._projected(net, sequence, 3 * self.hidden_size), self

    def step(self, net: Net, given: StepInput) -> Step:
        """See Cell. Raises BuildError for extra inputs, for which this cell does not have weights."""
        if given.extra:
            raise BuildError("a GRU cell must not have extra inputs")
        previous, size = given.states[0], self.hidden_size
        with net.name_scope(self.name):
            x_reset, x_update, x_output = net.op(
                "Split", given.input_t, ("input_t_reset", "input_t_update", "input_t_output"), axis=2
            )
            reset = fc(net, previous, "reset_gate_t", size, size, axis=2)
            update = fc(net, previous, "update_gate_t", size, size, axis=2)
            reset = net.op("Sum", (reset, x_reset), reset)
            opened = net.op("Sigmoid", reset, "reset_gate_t_sigmoid")
            if self.linear_before_reset:
                projected = fc(net, previous, "output_gate_t", size, size, axis=2)
                output = net.op("Mul", (opened, projected), "output_gate_t_mul")
            else:
                modified = net.op("Mul", (opened, previous), "modified_hidden_t_prev")
                output = fc(net, modified, "output_gate_t", size, size, axis=2)
            update = net.op("Sum", (update, x_update), update)
            output = net.op("Sum", (output, x_output), "output_gate_t_summed")
            gates, _ = net.op("Concat", (reset, update, output), ("gates_t", "_gates_t_concat_dims"), axis=2)
            hidden = net.op(
                "GRUUnit",
                (previous, gates, *given.lengths),
                "hidden_t",
                forget_bias=0.0,
                drop_states=self.drop_states,
                sequence_lengths=given.seq_lengths is not None,
            )
        return Step((hidden,))
