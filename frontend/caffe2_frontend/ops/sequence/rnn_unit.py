"""The units of recurrent cells: the elementwise part of a step, after the matrix products of the gates.

Gates are [1, N, gates * D] and states [1, N, D]. seq_lengths is given unless sequence_lengths=0; in a row whose
sequence has ended at the timestep, the states are kept or, with drop_states, set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.shapes import unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Expectation, Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("rnn_unit")


def _unit_operand(states: int) -> Expectation:
    """Describe the operands of a unit: states and gates, then sequence lengths unless disabled, and the timestep."""

    def expected(op: OpView, index: int) -> TensorInfo:
        lengths = states + 1 if op.args.flag("sequence_lengths", default=True) else None
        if index == lengths:
            return TensorInfo(ir.DataType.INT32, (None,))
        return (
            TensorInfo(ir.DataType.FLOAT, (1, None, None)) if index <= states else TensorInfo(ir.DataType.INT32, (1,))
        )

    return expected


@family.converts("LSTMUnit", expects=_unit_operand(2))
def lstm_unit(op: Op) -> tuple[Value, Value]:
    """LSTMUnit(H_prev, C_prev, gates[, seq_lengths], timestep; forget_bias=0.0, ...) -> H, C.

    The remaining arguments are sequence_lengths=1 and drop_states=0. Gates are in the order input, forget, output,
    cell; forget_bias is added to the forget gate before its sigmoid.
    """
    h_prev, c_prev, gates = op.input(0), op.input(1), op.input(2)
    _record_dims(op, [h_prev, c_prev], gates, 4)
    forget_bias = op.args.number("forget_bias", default=0.0)
    i, f, o, g = op.emit("Split", gates, axis=-1, num_outputs=4, outputs=4)
    if forget_bias:
        f = op.emit("Add", f, op.const(forget_bias, gates))
    kept = op.emit("Mul", op.emit("Sigmoid", f), c_prev)
    c = op.emit("Add", kept, op.emit("Mul", op.emit("Sigmoid", i), op.emit("Tanh", g)))
    h = op.emit("Mul", op.emit("Sigmoid", o), op.emit("Tanh", c))
    valid, drop = _valid_rows(op, 3)
    return _masked(op, valid, drop, h, h_prev), _masked(op, valid, drop, c, c_prev)


@family.converts("GRUUnit", expects=_unit_operand(1))
def gru_unit(op: Op) -> Value:
    """GRUUnit(H_prev, gates[, seq_lengths], timestep; sequence_lengths=1, drop_states=0) -> H.

    Gates are in the order reset, update, output; the reset gate is already applied to the output gate and ignored here.
    """
    op.args.ignore("forget_bias")
    h_prev, gates = op.input(0), op.input(1)
    _record_dims(op, [h_prev], gates, 3)
    _, u, candidate = op.emit("Split", gates, axis=-1, num_outputs=3, outputs=3)
    update = op.emit("Sigmoid", u)
    rest = op.emit("Sub", op.const(1.0, gates), update)
    h = op.emit("Add", op.emit("Mul", h_prev, update), op.emit("Mul", op.emit("Tanh", candidate), rest))
    valid, drop = _valid_rows(op, 2)
    return _masked(op, valid, drop, h, h_prev)


def _record_dims(op: Op, states: Sequence[Value], gates: Value, count: int) -> None:
    """Caffe2 requires N and D of the states to be those of the gates, and N to be the number of lengths."""
    shape = gates.shape
    if shape is None or len(shape) != 3:
        return
    width = shape[2]
    for state in states:
        if state.shape is not None and len(state.shape) == 3:
            op.dims.equate(state.shape[1], shape[1])
            if isinstance(width, int):
                op.dims.equate(state.shape[2], width // count)
    if op.args.flag("sequence_lengths", default=True):
        lengths = op.input(len(states) + 1)
        if lengths.shape is not None and len(lengths.shape) == 1:
            for state in states:
                if state.shape is not None and len(state.shape) == 3:
                    op.dims.equate(lengths.shape[0], state.shape[1])


def _valid_rows(op: Op, index: int) -> tuple[Value | None, bool]:
    """The mask of the rows whose sequence has this step, [N, 1] bool (None: all); and ``drop_states``."""
    drop = op.args.flag("drop_states", default=False)
    if not op.args.flag("sequence_lengths", default=True):
        return None, drop
    lengths, timestep = op.input(index), op.input(index + 1)
    return unsqueeze(op, op.emit("Less", timestep, lengths), [1]), drop


def _masked(op: Op, valid: Value | None, drop: bool, new: Value, old: Value) -> Value:
    """Select the new state in valid rows, and in the others the old one, or zero if states are dropped."""
    if valid is None:
        return new
    return op.emit("Where", valid, new, op.const(0.0, new) if drop else old)
