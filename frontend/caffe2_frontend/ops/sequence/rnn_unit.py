"""The units of recurrent cells: the elementwise part of a step, after the matrix products of the gates.

emit.layers.recurrent_units describes their operands.
"""

from __future__ import annotations

from caffe2_frontend.emit.layers.recurrent_units import lstm_operand, lstm_states, record_dims, unit_operand, valid_rows
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("rnn_unit")


@family.converts("LSTMUnit", expects=lstm_operand, uniform=True)
def lstm_unit(op: Op) -> tuple[Value, Value]:
    """LSTMUnit(H_prev, C_prev, gates[, seq_lengths], timestep; forget_bias=0.0, ...) -> H, C.

    The remaining arguments are sequence_lengths=1 and drop_states=0. Gates are in the order input, forget, output,
    cell; forget_bias is added to the forget gate before its sigmoid. Releases until February 2017 have no H_prev.
    """
    states = lstm_states(op.view)
    *_, c_prev, gates = (op.input(index) for index in range(states + 1))
    record_dims(op, [op.input(index) for index in range(states)], gates, 4)
    forget_bias = op.args.number("forget_bias", default=0.0)
    i, f, o, g = op.emit("Split", gates, axis=-1, num_outputs=4, outputs=4)
    if forget_bias:
        f = op.emit("Add", f, op.const(forget_bias, gates))
    kept = op.emit("Mul", op.emit("Sigmoid", f), c_prev)
    c = op.emit("Add", kept, op.emit("Mul", op.emit("Sigmoid", i), op.emit("Tanh", g)))
    h = op.emit("Mul", op.emit("Sigmoid", o), op.emit("Tanh", c))
    valid, drop = valid_rows(op, states)
    return _masked(op, valid, drop or states == 1, h, op.input(0)), _masked(op, valid, drop, c, c_prev)


@family.converts("GRUUnit", expects=unit_operand(1), uniform=True)
def gru_unit(op: Op) -> Value:
    """GRUUnit(H_prev, gates[, seq_lengths], timestep; sequence_lengths=1, drop_states=0) -> H.

    Gates are in the order reset, update, output; the reset gate is already applied to the output gate and ignored here.
    """
    op.args.ignore("forget_bias")
    h_prev, gates = op.input(0), op.input(1)
    record_dims(op, [h_prev], gates, 3)
    _, u, candidate = op.emit("Split", gates, axis=-1, num_outputs=3, outputs=3)
    update = op.emit("Sigmoid", u)
    rest = op.emit("Sub", op.const(1.0, gates), update)
    h = op.emit("Add", op.emit("Mul", h_prev, update), op.emit("Mul", op.emit("Tanh", candidate), rest))
    valid, drop = valid_rows(op, 1)
    return _masked(op, valid, drop, h, h_prev)


def _masked(op: Op, valid: Value | None, drop: bool, new: Value, old: Value) -> Value:
    """Select the new state in valid rows, and in the others the old one, or zero if states are dropped."""
    if valid is None:
        return new
    return op.emit("Where", valid, new, op.const(0.0, new) if drop else old)
