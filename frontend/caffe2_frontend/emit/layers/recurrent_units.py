"""What the units of recurrent cells and their gradients share: operands, equal dims, and rows past their sequence.

Gates are [1, N, gates * D] and states [1, N, D]. seq_lengths is given unless sequence_lengths=0; in a row whose
sequence has ended at the timestep, the states are kept or, with drop_states, set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import require_equal, require_min_rank
from caffe2_frontend.emit.shapes import as_vector, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Expectation
from caffe2_frontend.lowering.op import Op, Value

_TIMESTEP: Final = TensorInfo(ir.DataType.INT32, (1,))


def unit_operand(states: int) -> Expectation:
    """Describe the operands of a unit: states and gates, then sequence lengths unless disabled, and the timestep.

    A gradient has more operands after these, of the shape of a state.
    """

    def expected(op: OpView, index: int) -> TensorInfo:
        timestep = timestep_index(op, states)
        if index == timestep:
            return _TIMESTEP
        if states < index < timestep:
            return TensorInfo(ir.DataType.INT32, (None,))
        return TensorInfo(ir.DataType.FLOAT, (1, None, None))

    return expected


def lstm_operand(op: OpView, index: int) -> TensorInfo:
    """Describe the operands of LSTMUnit and its gradient."""
    return unit_operand(lstm_states(op))(op, index)


def lstm_states(op: OpView) -> int:
    """Return the number of states among the operands of LSTMUnit or its gradient.

    It is 2, H_prev and C_prev. Releases until February 2017 pass C_prev alone, and always sequence lengths; a row whose
    sequence has ended then has H = 0.
    """
    operands = 8 if op.type.endswith("Gradient") else 4
    return 1 if len(op.inputs) == operands and "sequence_lengths" not in op.args else 2


def timestep_index(op: Op | OpView, states: int) -> int:
    """Return the index of the operand that holds the timestep."""
    return states + 1 + op.args.flag("sequence_lengths", default=True)


def record_dims(op: Op, states: Sequence[Value], gates: Value, count: int) -> None:
    """Record Caffe2's equal dims: N and D of the states and of the ``count`` gates, and N lengths.

    Refuses states and gates without these dims, and gates of another width than ``count`` times that of the states.
    """
    _require_widths(op, states, gates, count)
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


def _require_widths(op: Op, states: Sequence[Value], gates: Value, count: int) -> None:
    known = [value for value in (*states, gates) if value.shape is not None]
    for value in known:
        require_min_rank(op, value, 3, "states and gates")
    if gates.shape is None:
        return
    width = op.static_dim(gates, 2)
    if width is not None and width % count:
        op.unsupported(f"the width of the gates ({width}) must be a multiple of {count}", code="invalid-operands")
    for state in known:
        if width is not None and state is not gates:
            require_equal(op, op.static_dim(state, 2), width // count, "the widths of states and of each gate")


def valid_rows(op: Op, states: int) -> tuple[Value | None, bool]:
    """Return the mask of the rows whose sequence has this step, [N, 1] bool (None: all); and ``drop_states``."""
    drop = op.args.flag("drop_states", default=False)
    if not op.args.flag("sequence_lengths", default=True):
        return None, drop
    lengths, timestep = (as_vector(op, op.input(states + offset)) for offset in (1, 2))
    return unsqueeze(op, op.emit("Less", timestep, lengths), [1]), drop
