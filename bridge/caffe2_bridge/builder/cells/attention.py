"""Decoder cells with attention to the outputs of an encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from caffe2_bridge.builder.cells.attention_scores import AttentionType, Encoded, Query, attend
from caffe2_bridge.builder.cells.base import Cell, Step, StepInput
from caffe2_bridge.builder.initializers import ZEROS
from caffe2_bridge.builder.layers import concat, fc
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA


@dataclass(frozen=True, kw_only=True)
class AttentionCell(Cell):
    """A decoder cell with attention: it reads the context of the previous step, and its hidden state is the query.

    Its states are those of the decoder, the context [1, N, E] and, for SOFT_COVERAGE, the coverage [1, N, S]; its
    output is the hidden state concatenated with the context.

    Attributes:
        decoder: the cell that reads the input and, as an extra input, the context.
        encoder_outputs: the outputs of the encoder, [S, N, E].
        encoder_output_size: E.
        encoder_lengths: the number of valid outputs of the S, int32 [N]; None if all are valid.
        attention_type: how the logits are computed.
        weighted_encoder_outputs: the projection of the encoder outputs for the logits, [S, N, E]; by default an FC.
        memory_optimization: whether the backward pass recomputes the largest blob of a step.
    """

    decoder: Cell
    encoder_outputs: str
    encoder_output_size: int
    encoder_lengths: str | None = None
    attention_type: AttentionType = AttentionType.REGULAR
    weighted_encoder_outputs: str | None = None
    memory_optimization: bool = False
    encoded: Encoded | None = dataclasses.field(default=None, init=False, repr=False)

    @property
    def state_names(self) -> tuple[str, ...]:
        """See Cell."""
        names = list(self.decoder.state_names)
        names[self.output_state] = self.scoped("hidden_t_external")
        names.append(self.scoped("attention_weighted_encoder_context_t"))
        return (*names, self.scoped("coverage_t")) if self._covers else tuple(names)

    @property
    def output_size(self) -> int:
        """Size of the decoder's output plus E."""
        return self.decoder.output_size + self.encoder_output_size

    @property
    def output_state(self) -> int:
        """Index of the decoder's output state."""
        return self.decoder.output_state

    @property
    def _covers(self) -> bool:
        return self.attention_type == AttentionType.SOFT_COVERAGE

    @property
    def _own_states(self) -> int:
        return 2 if self._covers else 1

    def initial_states(self, net: Net) -> tuple[Blob, ...]:
        """Return those of the decoder, a parameter for the context, and zeros for the coverage."""
        with net.name_scope(self.name):
            context = net.param("initial_attention_weighted_encoder_context", (self.encoder_output_size,), ZEROS)
        states = (*self.decoder.initial_states(net), context)
        return (*states, self.initial_coverage(net)) if self._covers else states

    def initial_coverage(self, net: Net) -> Blob:
        """Fill zeros [S], with S computed from the encoder outputs at run time."""
        length = net.op("Slice", net.op("Shape", self.encoder_outputs), starts=[0], ends=[1])
        if net.device is not None and net.device.device_type == PROTO_CUDA:
            length = net.op("CopyGPUToCPU", length, self.scoped("encoder_length_cpu"))
        return net.op("ConstantFill", length, self.scoped("initial_coverage"), value=0.0, input_as_shape=1)

    def prepare_input(self, net: Net, sequence: str) -> tuple[Blob, Self]:
        """Prepare the decoder's input, and compute the projections of the encoder outputs that all steps share."""
        prepared, decoder = self.decoder.prepare_input(net, sequence)
        cell = dataclasses.replace(self, decoder=decoder)
        encoded = self.encoded or self._encode(net)
        object.__setattr__(cell, "encoded", encoded)  # the object is new, so this is not observable
        return prepared, cell

    def _encode(self, net: Net) -> Encoded:
        outputs, size = net.blob(self.encoder_outputs), self.encoder_output_size
        lengths = None if self.encoder_lengths is None else net.blob(self.encoder_lengths)
        weighted = None if self.weighted_encoder_outputs is None else net.blob(self.weighted_encoder_outputs)
        coverage_weights = None
        with net.name_scope(self.name):
            transposed = net.op("Transpose", outputs, "encoder_outputs_transposed", axes=[1, 2, 0])
            if weighted is None and self.attention_type != AttentionType.DOT:
                weighted = fc(net, outputs, "weighted_encoder_outputs", size, size, axis=2)
            if self._covers:
                coverage_weights = fc(net, outputs, "coverage_weights", size, size, axis=2)
        return Encoded(size, transposed, lengths, weighted, coverage_weights)

    def step(self, net: Net, given: StepInput) -> Step:
        """See Cell. Raises BuildError for extra inputs, or if this cell has not prepared the input."""
        if given.extra:
            raise BuildError(
                "an attention cell must not have extra inputs: the context is the extra input of its decoder"
            )
        if self.encoded is None:
            raise BuildError("prepare_input must be called before step, on the cell that it returns")
        own = given.states[-self._own_states :]
        decoder_step = self.decoder.step(
            net,
            dataclasses.replace(
                given, states=given.states[: -self._own_states], extra=((own[0], self.encoder_output_size),)
            ),
        )
        hidden = self.decoder.step_output(net, decoder_step)
        with net.name_scope(self.name):
            query = Query(hidden, self.decoder.output_size, own[0], own[1] if self._covers else None)
            attended = attend(net, self.attention_type, self.encoded, query)
            states = list(decoder_step.states)
            states[self.output_state] = net.op("Copy", states[self.output_state], "hidden_t_external")
        states.append(attended.context)
        if attended.coverage is not None:
            states.append(attended.coverage)
        recompute = (*decoder_step.recompute, *(attended.recompute if self.memory_optimization else ()))
        return Step(tuple(states), recompute, (decoder_step,), hidden, attended.weights)

    def step_output(self, net: Net, step: Step) -> Blob:
        """Concatenate the hidden state and the context of one step."""
        assert step.hidden is not None
        return self._combined(net, step.hidden, step.states[-self._own_states])

    def sequence_output(self, net: Net, results: Sequence[Blob]) -> Blob:
        """Concatenate the hidden state and the context of all steps."""
        own = 2 * self._own_states
        return self._combined(net, self.decoder.sequence_output(net, results[:-own]), results[-own])

    def _combined(self, net: Net, hidden: Blob, context: Blob) -> Blob:
        with net.name_scope(self.name):
            return concat(net, (hidden, context), "states_and_context_combination", axis=2)
