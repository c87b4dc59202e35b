"""LSTM cells, which differ in how the gates are computed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from caffe2_bridge.builder.cells.base import Cell, Step, StepInput, hidden_input
from caffe2_bridge.builder.initializers import ONES, ZEROS
from caffe2_bridge.builder.layers import fc, layer_norm
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob


@dataclass(frozen=True, kw_only=True)
class LSTMFamilyCell(Cell):
    """The base of LSTM cells: ``c' = f * c + i * g; h' = o * tanh(c')`` with gates in the order i, f, o, g.

    Attributes:
        input_size: the last dim of the input sequence.
        hidden_size: the last dim of the states and of the output.
        forget_bias: added to the forget gate.
        drop_states: whether the states after the end of a sequence are zero instead of the last ones.
        memory_optimization: whether the backward pass recomputes the gates instead of storing them.
    """

    input_size: int
    hidden_size: int
    forget_bias: float = 0.0
    drop_states: bool = False
    memory_optimization: bool = False

    _unit_outputs: ClassVar[tuple[str, str]]

    @property
    def state_names(self) -> tuple[str, ...]:
        """See Cell."""
        return self.scoped("hidden_t"), self.scoped("cell_t")

    @property
    def output_size(self) -> int:
        """See Cell."""
        return self.hidden_size

    @property
    def gates_size(self) -> int:
        """Size of the four gates."""
        return 4 * self.hidden_size

    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """Return the parameters ``initial_hidden_state`` and ``initial_cell_state`` [hidden_size]."""
        with net.name_scope(self.name):
            return (
                net.param("initial_hidden_state", (self.hidden_size,), ZEROS),
                net.param("initial_cell_state", (self.hidden_size,), ZEROS),
            )

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """See Cell."""
        blob = net.blob(sequence)
        with net.name_scope(self.name):
            return fc(net, blob, "i2h", self.input_size, self.gates_size, axis=2), self

    def step(self, net: Net, given: StepInput) -> Step:
        """See Cell."""
        with net.name_scope(self.name):
            gates, *others = self._gates(net, given)
            hidden, cell = net.op(
                "LSTMUnit",
                (*given.states, gates, *given.lengths),
                self._unit_outputs,
                forget_bias=float(self.forget_bias),
                drop_states=self.drop_states,
                sequence_lengths=given.seq_lengths is not None,
            )
        return Step((hidden, cell), (gates, *others) if self.memory_optimization else ())

    @abstractmethod
    def _gates(self, net: Net, given: StepInput) -> tuple[Blob, ...]:
        """Return the gates before their nonlinearities, [1, N, 4D], and the other outputs of the last operator."""

    def _summed(self, net: Net, given: StepInput) -> Blob:
        """Return ``FC(h) + x``."""
        joined, size = hidden_input(net, given, self.hidden_size)
        gates = fc(net, joined, "gates_t", size, self.gates_size, axis=2)
        return net.op("Sum", (gates, given.input_t), gates)

    def _integrated(self, net: Net, given: StepInput) -> Blob:
        """Return ``(alpha * x + beta1) * FC(h) + (beta2 * x + b)``."""
        joined, size = hidden_input(net, given, self.hidden_size)
        previous = fc(net, joined, "prev_t", size, self.gates_size, axis=2)
        alpha, beta_hidden, beta_input = (
            net.param(name, (self.gates_size,), ONES) for name in ("alpha", "beta1", "beta2")
        )
        bias = net.param("b", (self.gates_size,), ZEROS)
        scaled = net.op(
            "ElementwiseLinear", (given.input_t, alpha, beta_hidden), "alpha_by_input_t_plus_beta_h", axis=2
        )
        product = net.op("Mul", (scaled, previous), "alpha_by_input_t_plus_beta_h_by_prev_t")
        shifted = net.op("ElementwiseLinear", (given.input_t, beta_input, bias), "beta_i_by_input_t_plus_b", axis=2)
        return net.op("Sum", (product, shifted), "gates_t")

    def _normalized(self, net: Net, gates: Blob) -> tuple[Blob, ...]:
        return layer_norm(net, gates, "gates_t_norm", self.gates_size)


class LSTMCell(LSTMFamilyCell):
    """``gates = FC(h) + i2h(x)``."""

    _unit_outputs = ("hidden_state", "cell_state")

    def _gates(self, net: Net, given: StepInput) -> tuple[Blob, ...]:
        return (self._summed(net, given),)


class LayerNormLSTMCell(LSTMFamilyCell):
    """An LSTM with layer normalization of the gates before their nonlinearities."""

    _unit_outputs = ("hidden_t", "cell_t")

    def _gates(self, net: Net, given: StepInput) -> tuple[Blob, ...]:
        return self._normalized(net, self._summed(net, given))


class MILSTMCell(LSTMFamilyCell):
    """An LSTM with multiplicative integration: ``gates = (alpha * x + beta1) * FC(h) + (beta2 * x + b)``."""

    _unit_outputs = ("hidden_t_intermediate", "cell_t")

    def _gates(self, net: Net, given: StepInput) -> tuple[Blob, ...]:
        return (self._integrated(net, given),)


class LayerNormMILSTMCell(LSTMFamilyCell):
    """An LSTM with multiplicative integration and layer normalization of the gates."""

    _unit_outputs = ("hidden_t_intermediate", "cell_t")

    def _gates(self, net: Net, given: StepInput) -> tuple[Blob, ...]:
        return self._normalized(net, self._integrated(net, given))
