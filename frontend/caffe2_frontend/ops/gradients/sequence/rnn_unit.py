"""Gradients of the units of recurrent cells.

Everything that depends on saved states and gates alone is computed apart from the gradients, so that it leaves the
loop over the steps: it becomes one computation for all of them. In a row whose sequence has ended at the timestep, the
gradient of a state is passed on or, with drop_states, set to zero, and the gradients of the gates are 0.
"""

from __future__ import annotations

from caffe2_frontend.emit.arithmetic import add, aligned, mul, square, sub
from caffe2_frontend.emit.layers.recurrent_units import (
    lstm_operand,
    lstm_states,
    record_dims,
    timestep_index,
    unit_operand,
    valid_rows,
)
from caffe2_frontend.emit.operand_checks import SINGLE, require_dtype
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("rnn_unit_gradient")


@family.converts("LSTMUnitGradient", expects=lstm_operand)
def lstm_unit_gradient(op: Op) -> tuple[Value, ...]:
    """LSTMUnitGradient(H_prev, C_prev, gates[, seq_lengths], timestep, H, C, dH, dC; ...) -> dH_prev, dC_prev, dgates.

    The arguments are those of LSTMUnit: forget_bias=0.0, sequence_lengths=1 and drop_states=0. With gates i, f, o and g
    after their activations, the gradient of the cell is ``dC + dH o (1 - tanh(C)^2)``; it is the factor of the
    gradients of i, f and g, and dH that of the gradient of o. Releases until February 2017 have no H_prev, nor dH_prev.
    """
    states = lstm_states(op.view)
    *_, c_prev, gates = (op.input(index) for index in range(states + 1))
    record_dims(op, [op.input(index) for index in range(states)], gates, 4)
    timestep = timestep_index(op, states)
    c, dh, dc = (aligned(op, op.input(timestep + offset), c_prev) for offset in (2, 3, 4))
    require_dtype(op, gates, SINGLE, "gates")
    i, f, o, g = op.emit("Split", gates, axis=-1, num_outputs=4, outputs=4)
    forget_bias = op.args.number("forget_bias", default=0.0)
    if forget_bias:
        f = add(op, f, forget_bias)
    i, f, o, g, tanh = *(op.emit("Sigmoid", gate) for gate in (i, f, o)), op.emit("Tanh", g), op.emit("Tanh", c)
    slopes = op.emit(
        "Concat",
        mul(op, g, _logistic_slope(op, i)),
        mul(op, c_prev, _logistic_slope(op, f)),
        mul(op, tanh, _logistic_slope(op, o)),
        mul(op, i, _tanh_slope(op, g)),
        axis=-1,
    )
    valid, drop = valid_rows(op, states)
    of_cell = _where_valid(op, valid, mul(op, o, _tanh_slope(op, tanh)), 0.0)
    passed = _where_valid(op, valid, f, 0.0 if drop else 1.0)
    cell = add(op, dc, mul(op, dh, of_cell))
    factors = op.emit("Concat", cell, cell, dh, cell, axis=-1)
    dgates = mul(op, factors, _where_valid(op, valid, slopes, 0.0))
    if states == 1:
        return mul(op, cell, passed), dgates
    dh_prev = op.emit("Where", valid, op.const(0.0, dh), dh) if valid is not None and not drop else _zeros(op, dh)
    return aligned(op, dh_prev, op.input(0)), mul(op, cell, passed), dgates


@family.converts("GRUUnitGradient", expects=unit_operand(1))
def gru_unit_gradient(op: Op) -> tuple[Value, Value]:
    """GRUUnitGradient(H_prev, gates[, seq_lengths], timestep, H, dH; sequence_lengths=1, ...) -> dH_prev, dgates.

    The other argument is drop_states=0. The gradient of the reset gate is 0, as it is applied before the unit.
    """
    op.args.ignore("forget_bias")
    h_prev, gates = op.input(0), op.input(1)
    record_dims(op, [h_prev], gates, 3)
    dh = aligned(op, op.input(timestep_index(op, 1) + 2), h_prev)
    require_dtype(op, gates, SINGLE, "gates")
    _, u, candidate = op.emit("Split", gates, axis=-1, num_outputs=3, outputs=3)
    update, output = op.emit("Sigmoid", u), op.emit("Tanh", candidate)
    rest = sub(op, 1.0, update)
    of_update = mul(op, sub(op, h_prev, output), mul(op, update, rest))
    slopes = op.emit("Concat", _zeros(op, h_prev), of_update, mul(op, rest, _tanh_slope(op, output)), axis=-1)
    valid, drop = valid_rows(op, 1)
    passed = _where_valid(op, valid, update, 0.0 if drop else 1.0)
    dgates = mul(op, op.emit("Concat", dh, dh, dh, axis=-1), _where_valid(op, valid, slopes, 0.0))
    return mul(op, dh, passed), dgates


def _logistic_slope(op: Op, y: Value) -> Value:
    """Return the derivative of the sigmoid where it is ``y``."""
    return mul(op, y, sub(op, 1.0, y))


def _tanh_slope(op: Op, y: Value) -> Value:
    """Return the derivative of tanh where it is ``y``."""
    return sub(op, 1.0, square(op, y))


def _where_valid(op: Op, valid: Value | None, x: Value, otherwise: float) -> Value:
    """Return ``x``, and ``otherwise`` in rows whose sequence has ended."""
    return x if valid is None else op.emit("Where", valid, x, op.const(otherwise, x))


def _zeros(op: Op, like: Value) -> Value:
    """Return zeros of the shape of ``like``."""
    return op.emit("Expand", op.const(0.0, like), op.emit("Shape", like), shape=op.shape(like))
