"""Cells of every kind, as nets with a loss; by name."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from caffe2_bridge.builder import (
    AttentionCell,
    AttentionType,
    BasicRNNCell,
    Cell,
    DropoutCell,
    GRUCell,
    LayerNormLSTMCell,
    LayerNormMILSTMCell,
    LSTMCell,
    MILSTMCell,
    MultiRNNCell,
    Net,
    UnrolledCell,
)
from caffe2_bridge.gradients import add_gradient_operators

T, N, X, D, E, S = 4, 3, 5, 4, 6, 7
CELLS = {
    "BasicRNN": BasicRNNCell,
    "LSTM": LSTMCell,
    "GRU": GRUCell,
    "MILSTM": MILSTMCell,
    "LayerNormLSTM": LayerNormLSTMCell,
    "LayerNormMILSTM": LayerNormMILSTMCell,
}
Spec = dict[str, Any]


def leaf(kind: str, name: str = "cell", input_size: int = X, **options: Any) -> Spec:
    return {"kind": kind, "name": name, "input_size": input_size, "hidden_size": D, **options}


def layers(*cells: Spec, **options: Any) -> Spec:
    return {"kind": "Multi", "name": "layers", "cells": list(cells), **options}


def attention(kind: str, decoder: str = "LSTM", lengths: str | None = "encoder_lengths", **options: Any) -> Spec:
    return {
        "kind": "Attention",
        "name": "attention",
        "decoder": leaf(decoder, "attention/decoder"),
        "encoder_outputs": "encoder_outputs",
        "encoder_output_size": E,
        "encoder_lengths": lengths,
        "attention_type": kind,
        **options,
    }


def unrolled(cell: Spec) -> Spec:
    return {"kind": "Unrolled", "cell": cell, "steps": T}


@dataclass(frozen=True)
class Case:
    """A cell, the sizes of the initial states it is given (none: its own), lengths or not, what gets gradients."""

    cell: Spec
    states: tuple[int, ...]
    lengths: bool = True
    grads: tuple[int, ...] = (0,)
    trains: bool = True
    caffe2_loses_gradient: bool = False
    as_caffe2_can: Spec | None = None  # what is asked of Caffe2, where its own cell is not able to do this

    @property
    def attends(self) -> bool:
        return "Attention" in (self.cell["kind"], self.cell.get("cell", {}).get("kind"))


CASES: Mapping[str, Case] = {
    "basic_rnn": Case(leaf("BasicRNN", activation="tanh"), (D,), lengths=False),
    "basic_rnn_relu": Case(leaf("BasicRNN", activation="relu"), (D,), lengths=False),
    # The mask is made of comparisons, which have no gradient.
    "basic_rnn_lengths": Case(leaf("BasicRNN", activation="tanh"), (D,), trains=False),
    "basic_rnn_drop_states": Case(leaf("BasicRNN", activation="relu", drop_states=True), (D,), trains=False),
    "lstm": Case(leaf("LSTM", forget_bias=1.0), (D, D)),
    "lstm_no_lengths": Case(leaf("LSTM"), (D, D), lengths=False),
    "lstm_drop_states": Case(leaf("LSTM", drop_states=True), (D, D)),
    "lstm_own_states": Case(leaf("LSTM"), ()),
    "lstm_recomputed": Case(leaf("LSTM", memory_optimization=True), (D, D)),
    "gru": Case(leaf("GRU"), (D,)),
    "gru_drop_states": Case(leaf("GRU", drop_states=True), (D,)),
    "gru_no_lengths": Case(leaf("GRU"), (D,), lengths=False),
    "gru_linear_before_reset": Case(leaf("GRU", linear_before_reset=True), (D,)),
    "milstm": Case(leaf("MILSTM"), (D, D)),
    "milstm_recomputed": Case(leaf("MILSTM", memory_optimization=True), (D, D)),
    "layer_norm_lstm": Case(leaf("LayerNormLSTM"), (D, D)),
    "layer_norm_milstm": Case(leaf("LayerNormMILSTM"), (D, D)),
    "two_layers": Case(layers(leaf("LSTM", ""), leaf("LSTM", "", D)), (D, D, D, D), grads=(4,)),
    "two_layers_own_states": Case(layers(leaf("LSTM", "a"), leaf("LSTM", "b", D)), (), grads=(4,)),
    "gru_over_lstm": Case(layers(leaf("LSTM", "a"), leaf("GRU", "b", D)), (D, D, D), grads=(4,)),
    # The gradient of a layer's output is that of the Sum which adds it to a neighbour's; Caffe2 drops what comes from
    # the next step then. PyTorch judges.
    "residual_last": Case(
        layers(leaf("LSTM", "a"), leaf("LSTM", "b", D), leaf("LSTM", "c", D), residual_output_layers=[2]),
        (D,) * 6,
        grads=(4, 8),
    ),
    "residual_all": Case(
        layers(leaf("LSTM", "a"), leaf("LSTM", "b", D), leaf("LSTM", "c", D), residual_output_layers=[1, 2]),
        (D,) * 6,
        grads=(0, 4, 8),
        caffe2_loses_gradient=True,
    ),
    "residual_first": Case(
        layers(leaf("LSTM", "a"), leaf("LSTM", "b", D), leaf("LSTM", "c", D), residual_output_layers=[1]),
        (D,) * 6,
        grads=(8,),
        caffe2_loses_gradient=True,
    ),
    "dropout": Case({"kind": "Dropout", "name": "drop", "cell": leaf("LSTM"), "ratio": 0.25, "is_test": True}, (D, D)),
    "dropout_between_layers": Case(
        layers(
            {"kind": "Dropout", "name": "drop", "cell": leaf("LSTM", "a"), "ratio": 0.25, "is_test": True},
            leaf("LSTM", "b", D),
        ),
        (D,) * 4,
        grads=(4,),
    ),
    "attention_regular": Case(attention("regular"), (D, D, E), grads=(0, 4)),
    "attention_recurrent": Case(attention("recurrent"), (D, D, E), grads=(0, 4)),
    "attention_dot": Case(attention("dot"), (D, D, E), grads=(0, 4)),
    "attention_soft_coverage": Case(attention("soft_coverage"), (D, D, E, S), grads=(0, 4)),
    "attention_no_encoder_lengths": Case(attention("regular", lengths=None), (D, D, E), grads=(0, 4)),
    "attention_milstm": Case(attention("recurrent", "MILSTM"), (D, D, E), grads=(0, 4)),
    "attention_recomputed": Case(attention("regular", memory_optimization=True), (D, D, E), grads=(0, 4)),
    "attention_layers": Case(
        {**attention("regular"), "decoder": layers(leaf("LSTM", "a"), leaf("MILSTM", "b", D))},
        (D, D, D, D, E),
        grads=(4, 8),
    ),
    "attention_residual_layers": Case(
        {
            **attention("recurrent"),
            "decoder": layers(leaf("LSTM", "a"), leaf("LSTM", "b", D), residual_output_layers=[1]),
        },
        (D, D, D, D, E),
        grads=(0, 4, 8),
    ),
    # Caffe2's layers and attention forget what the cells inside of them would recompute; it makes no difference.
    "two_layers_recomputed": Case(
        layers(leaf("LSTM", "a", memory_optimization=True), leaf("LSTM", "b", D, memory_optimization=True)),
        (D,) * 4,
        grads=(4,),
    ),
    "attention_decoder_recomputed": Case(
        {**attention("regular"), "decoder": leaf("LSTM", "attention/decoder", memory_optimization=True)},
        (D, D, E),
        grads=(0, 4),
    ),
    # Caffe2's layer norm cells cannot recompute: the operator writes the mean and the deviation too.
    "layer_norm_lstm_recomputed": Case(
        leaf("LayerNormLSTM", memory_optimization=True), (D, D), as_caffe2_can=leaf("LayerNormLSTM")
    ),
    "layer_norm_milstm_recomputed": Case(
        leaf("LayerNormMILSTM", memory_optimization=True), (D, D), as_caffe2_can=leaf("LayerNormMILSTM")
    ),
    "unrolled_lstm": Case(unrolled(leaf("LSTM")), (D, D)),
    # Caffe2's needs initial states of each sequence.
    "unrolled_own_states": Case(unrolled(leaf("LSTM")), (), as_caffe2_can=leaf("LSTM")),
    "unrolled_gru": Case(unrolled(leaf("GRU")), (D,)),
    "unrolled_two_layers": Case(unrolled(layers(leaf("LSTM", "a"), leaf("LSTM", "b", D))), (D, D, D, D), grads=(4,)),
    "unrolled_attention": Case(unrolled(attention("regular")), (D, D, E), grads=(0, 4)),
}


def cell_of(spec: Spec, *, forward_only: bool) -> Cell:
    options = dict(spec)
    kind = options.pop("kind")
    match kind:
        case "Multi":
            cells = tuple(cell_of(inner, forward_only=forward_only) for inner in options.pop("cells"))
            residual = tuple(options.pop("residual_output_layers", ()))
            return MultiRNNCell(cells=cells, residual_output_layers=residual, forward_only=forward_only, **options)
        case "Dropout":
            cell = cell_of(options.pop("cell"), forward_only=forward_only)
            return DropoutCell(cell=cell, forward_only=forward_only, **options)
        case "Unrolled":
            return UnrolledCell(cell=cell_of(options["cell"], forward_only=forward_only), steps=options["steps"])
        case "Attention":
            decoder = cell_of(options.pop("decoder"), forward_only=forward_only)
            attention_type = AttentionType(options.pop("attention_type"))
            return AttentionCell(decoder=decoder, attention_type=attention_type, forward_only=forward_only, **options)
    made: Cell = CELLS[kind](forward_only=forward_only, **options)
    return made


@dataclass(frozen=True)
class Built:
    net: Net
    output: str
    results: tuple[str, ...]
    gradients: Mapping[str, str]


def ours(case: Case, *, forward_only: bool) -> Built:
    net = Net("net")
    cell = cell_of(case.cell, forward_only=forward_only)
    states: list[str] | None = [f"state_{i}" for i in range(len(case.states))] or None
    if states and case.cell.get("attention_type") == "soft_coverage":
        assert isinstance(cell, AttentionCell)
        states[-1] = cell.initial_coverage(net)
    lengths = "seq_lengths" if case.lengths else None
    output, results = cell.apply_over_sequence(net, "x", lengths, states, case.grads)
    net.op("SumElements", net.op("Mul", (output, "weights"), "weighted"), "loss")
    gradients: Mapping[str, str] = {}
    if not forward_only:
        gradients = with_gradients(net)
    return Built(net, output, results, gradients)


def with_gradients(net: Net) -> Mapping[str, str]:
    """Add the operators that compute the gradient of the loss. Returns the gradients by blob."""
    made = add_gradient_operators(net.proto, ["loss"])
    net.extend(made.net.op[len(net.proto.op) :])
    return {blob: gradient for blob, gradient in made.gradients.items() if isinstance(gradient, str)}


def values(name: str, case: Case, net: Net) -> dict[str, Any]:
    """Return inputs and parameters, the same for both."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    kinds = {blob: (array.shape, array.dtype) for blob, array in net.model().params.items()}
    shapes = {blob: shape for blob, (shape, dtype) in kinds.items() if dtype == np.float32}
    shapes |= {f"state_{i}": (1, N, size) for i, size in enumerate(case.states)}
    shapes |= {"x": (T, N, X), "weights": (T, N, D), "encoder_outputs": (S, N, E)}
    if case.attends:
        shapes["weights"] = (T, N, D + E)
    drawn = {blob: rng.normal(0, 0.5, shape).astype(np.float32) for blob, shape in shapes.items()}
    return {
        **drawn,
        "seq_lengths": np.array([T, 1, 3], np.int32),
        "encoder_lengths": np.array([2, S, 4], np.int32),
        **{f"timestep_{t}/timestep": np.array([t], np.int32) for t in range(T)},
    }
