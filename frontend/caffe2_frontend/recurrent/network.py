"""Convert RecurrentNetwork."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import onnx_ir as ir

from caffe2_bridge.control import Alias, RecurrentNetwork, RecurrentSpec
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_frontend.emit.shapes import slice_axis
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.buffered import emit_buffered
from caffe2_frontend.recurrent.step_body import Rows, buffer_reason
from caffe2_frontend.recurrent.unbuffered import emit_rowwise

family = Family("recurrent")

_END = 2**62

T = TypeVar("T")


def _operand(op: OpView, index: int) -> TensorInfo:
    if index == 0:
        return TensorInfo(shape=(None, None, None))
    if index in RecurrentNetwork(op).initial_ids:
        return TensorInfo(shape=(1, None, None))
    return TensorInfo(ir.DataType.INT32, (None,)) if _is_compared_with_time(op, op.inputs[index]) else TensorInfo()


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
    reason = buffer_reason(spec)
    if reason is None:
        workspaces = emit_rowwise(op, spec, form)
        _bind_rows(op, spec, workspaces.states)
    elif form == "fused":
        hint = "choose another form: --recurrent auto|scan|loop, or recurrent='auto'"
        op.unsupported(f"the net cannot have the form {form!r}: {reason}", hint)
    else:
        op.note(f"the net becomes a {'Scan' if form == 'scan' else 'Loop'} that carries whole states: {reason}")
        buffers, workspaces = emit_buffered(op, spec, form)
        _bind_buffers(op, spec, buffers)
    op.scope.bind_object(control.workspaces, replace(workspaces, aliases=spec.aliases))
    bound = {*control.creates}
    return tuple(op.scope.blobs.get(name) if name in bound else None for name in op.view.outputs)


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
