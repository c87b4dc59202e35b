"""The units of recurrent cells: the elementwise part of a step, after the matrix products of the gates."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("rnn_unit")


def _masked(op: Op, first: int, new: torch.Tensor, old: torch.Tensor, *, drop: bool) -> torch.Tensor:
    """Return the new state in rows that are not over; in the others the old one, or zero if states are dropped.

    Operand ``first`` is the sequence lengths, where there are any, and the step comes last.
    """
    if not op.args.flag("sequence_lengths", default=True) or not op.has(first + 1):
        return new
    lengths, step = op.tensor(first), op.tensor(first + 1).reshape(())
    valid = (step < lengths).reshape(-1, 1)
    return torch.where(valid, new, torch.zeros_like(new) if drop else old)


@family.converts("LSTMUnit")
def lstm_unit(op: Op) -> tuple[Value, Value]:
    """Read gates in the order input, forget, output, cell. Releases until February 2017 have no H_prev."""
    has_lengths = op.args.flag("sequence_lengths", default=True)
    states = 2 if op.count == (5 if has_lengths else 4) else 1
    cell, gates = op.tensor(states - 1), op.tensor(states)
    drop = op.args.flag("drop_states", default=False)
    i, f, o, g = gates.reshape(*gates.shape[:-1], 4, -1).unbind(-2)
    new_cell = torch.sigmoid(f + op.args.number("forget_bias", default=0.0)) * cell + torch.sigmoid(i) * torch.tanh(g)
    hidden = torch.sigmoid(o) * torch.tanh(new_cell)
    return (
        _masked(op, states + 1, hidden, op.tensor(0), drop=drop or states == 1),
        _masked(op, states + 1, new_cell, cell, drop=drop),
    )


@family.converts("GRUUnit")
def gru_unit(op: Op) -> Value:
    """Read gates in the order reset, update, output; the reset gate is already applied to the output gate."""
    op.args.ignore("forget_bias")
    hidden, gates = op.tensor(0), op.tensor(1)
    _, u, candidate = gates.reshape(*gates.shape[:-1], 3, -1).unbind(-2)
    update = torch.sigmoid(u)
    new = hidden * update + torch.tanh(candidate) * (1 - update)
    return _masked(op, 2, new, hidden, drop=op.args.flag("drop_states", default=False))


@family.converts("InferenceLSTM")
def inference_lstm(op: Op) -> tuple[Value, ...]:
    """Run a stack of LSTM layers, whose parameters have the order of PyTorch's."""
    layers, biases = op.args.integer("num_layers", default=1), op.args.flag("has_biases", default=True)
    both, batch_first = (op.args.flag(name, default=False) for name in ("bidirectional", "batch_first"))
    x, hidden, cell, *params = op.tensors
    directions = 2 if both else 1
    if len(params) != layers * directions * (4 if biases else 2):
        op.refuse(f"{layers} layers of {directions} directions do not have {len(params)} parameters")
    return torch.lstm(x, (hidden, cell), params, biases, layers, 0.0, False, both, batch_first)  # noqa: FBT003 - no keywords
