"""Convert RecurrentNetwork."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
import onnx_ir as ir

from caffe2_bridge.control import Alias, RecurrentNetwork, RecurrentSpec
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_frontend.emit.shapes import size, size_vector, slice_axis
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.buffered import emit_buffered
from caffe2_frontend.recurrent.padding import steps_int32
from caffe2_frontend.recurrent.step_body import Rows
from caffe2_frontend.recurrent.unbuffered import emit_rowwise

family = Family("recurrent")

_END = 2**62
# The operand with the sequence lengths; with sequence_lengths=0 an LSTMUnit has the step index in its place.
_LENGTHS_INDEX: Final = {"LSTMUnit": 3, "GRUUnit": 2}
_HINT: Final = "choose another form: --recurrent auto|scan|loop, or recurrent='auto'"

T = TypeVar("T")


def _operand(op: OpView, index: int) -> TensorInfo:
    if index == 0:
        return TensorInfo(shape=(None, None, None))
    if index in RecurrentNetwork(op).initial_ids:
        return TensorInfo(shape=(1, None, None))
    return TensorInfo(ir.DataType.INT32, (None,)) if _is_compared_with_time(op, op.inputs[index]) else TensorInfo()


def _is_read_by_unit(op: OpView, name: str) -> bool:
    """Return whether an LSTMUnit or GRUUnit of the step net reads a blob as its sequence lengths."""
    units = (inner for inner in NetView(RecurrentNetwork(op).step_net).ops if inner.type in _LENGTHS_INDEX)
    return any(name in inner.inputs[_LENGTHS_INDEX[inner.type] :][:1] for inner in units)


def _is_compared_with_time(op: OpView, name: str) -> bool:
    """Return whether the step net compares a blob with the step index, as it does with sequence lengths."""
    control = RecurrentNetwork(op)
    times = {control.timestep}
    for inner in NetView(control.step_net).ops:
        if inner.type in ("Copy", "CopyFromCPUInput") and times.intersection(inner.inputs[:1]):
            times.update(inner.outputs)
        elif inner.type in ("GT", "GE", "LT", "LE") and name in inner.inputs and times.intersection(inner.inputs):
            return True
    return False


@family.converts("RecurrentNetwork", expects=_operand)
def recurrent_network(op: Op) -> tuple[Value | None, ...]:
    """Emit LSTM, GRU or RNN if the step net computes one and the form allows it, otherwise a Scan or a Loop.

    Later operators can also read the blobs of the states, and aliases that are not declared as outputs.
    """
    control = RecurrentNetwork(op.view)
    spec = control.spec
    sequence = op.input(0)
    if sequence.shape is None:  # computed, such as by a fill whose shape is an input: it has the rank that inputs have
        sequence.shape = ir.Shape([None] * len(_operand(op.view, 0).shape or ()))
    if not any(op.lowering.reads.counts[scratch.blob] for scratch in spec.scratches):
        spec = spec.without_scratches()
    form = op.lowering.recurrent
    if form == "portable" and op.static_dim(sequence, 0) == 0:
        op.unsupported("the form 'portable' is for sequences of at least one step, and this one has none", _HINT)
    if op.lowering.full_lengths:
        _fill_lengths(op, sequence)
    reason = spec.buffer_reason
    if reason is None:
        workspaces = emit_rowwise(op, spec, form)
        _bind_rows(op, spec, workspaces.states)
    elif form == "fused":
        op.unsupported(f"the net cannot have the form {form!r}: {reason}", _HINT)
    else:
        op.note(f"the net becomes a {'Scan' if form == 'scan' else 'Loop'} that carries whole states: {reason}")
        buffers, workspaces = emit_buffered(op, spec, form)
        _bind_buffers(op, spec, buffers)
    op.scope.bind_object(control.workspaces, replace(workspaces, aliases=spec.aliases))
    bound = {*control.creates}
    return tuple(op.scope.blobs.get(name) if name in bound else None for name in op.view.outputs)


def _fill_lengths(op: Op, sequence: Value) -> None:
    """Bind the lengths of the rows to T, as the caller promises; refuse lengths that are known to be smaller."""
    steps = op.static_dim(sequence, 0)
    for name in op.view.inputs:
        if not (_is_read_by_unit(op.view, name) or _is_compared_with_time(op.view, name)):
            continue
        given = op.scope.find(name)
        known = None if given is None or given.const_value is None else given.const_value.numpy()
        if known is not None and steps is not None and np.any(known < steps):
            reason = f"the lengths {name!r} are smaller than the {steps} steps, and full_lengths promises that none is"
            op.unsupported(reason, "leave --full-lengths, or full_lengths=True, out", code="invalid-operands")
        full = op.emit("Expand", steps_int32(op, size(op, sequence, 0)), size_vector(op, sequence, 1))
        op.scope.bind(name, full)


def _bind_rows(op: Op, spec: RecurrentSpec, rows: Mapping[str, Rows]) -> None:
    for state in spec.states:
        op.scope.bind(state.blob, _from(op, rows[state.blob], 0))
    for alias in spec.aliases:
        op.scope.bind(alias.blob, _from(op, _source(op, rows, alias), alias.offset))


def _bind_buffers(op: Op, spec: RecurrentSpec, buffers: dict[str, Value]) -> None:
    for blob, value in buffers.items():
        op.scope.bind(blob, value)
    for alias in spec.aliases:
        op.scope.bind(alias.blob, slice_axis(op, _source(op, buffers, alias), 0, alias.offset, _END))


def _source(op: Op, states: Mapping[str, T], alias: Alias) -> T:
    if alias.source not in states:
        op.unsupported(f"alias {alias.blob!r} must refer to a state, not {alias.source!r}", code="invalid-argument")
    return states[alias.source]


def _from(op: Op, rows: Rows, offset: int) -> Value | None:
    """Return the rows of a state from ``offset`` on, counted from the end if negative; None if they are not read."""
    if offset == -1:
        return rows.last
    if offset == 1 or rows.steps is None:
        return rows.steps
    states = op.emit("Concat", rows.initial, rows.steps, axis=0)
    return states if offset == 0 else slice_axis(op, states, 0, offset, _END)
