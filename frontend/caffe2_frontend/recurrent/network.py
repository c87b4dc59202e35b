"""The RecurrentNetwork operator."""

from __future__ import annotations

from caffe2_bridge.net import OpView
from caffe2_frontend.family import Family
from caffe2_frontend.op import Op, Value
from caffe2_frontend.recurrent.rowwise import emit_rowwise
from caffe2_frontend.recurrent.spec import Alias, read_spec
from caffe2_frontend.recurrent.steps import Rows, why_not_rowwise
from caffe2_frontend.shapes import slice_axis
from caffe2_frontend.types import TensorInfo

family = Family("recurrent")

_END = 2**62


def _operand(op: OpView, index: int) -> TensorInfo:
    if index == 0:
        return TensorInfo(shape=(None, None, None))
    if index in op.args.integers("initial_recurrent_state_ids", default=()):
        return TensorInfo(shape=(1, None, None))
    return TensorInfo()


@family.converts("RecurrentNetwork", expects=_operand)
def recurrent_network(op: Op) -> tuple[Value | None, ...]:
    """A Scan, or a Loop where that is asked for; fusing it into LSTM, GRU or RNN is a later pass's work.

    The states' own blobs, and aliases that are no declared outputs, can be read by later operators too.
    """
    spec = read_spec(op)
    reason = why_not_rowwise(spec)
    if reason is not None:
        op.unsupported(reason)
    rows = emit_rowwise(op, spec, op.lowering.recurrent)
    for state in spec.states:
        op.scope.bind(state.blob, _from(op, rows[state.blob], 0))
    for alias in spec.aliases:
        op.scope.bind(alias.blob, _alias(op, rows, alias))
    made = {*(state.blob for state in spec.states), *(alias.blob for alias in spec.aliases)}
    return tuple(op.scope.blobs.get(name) if name in made else None for name in op.view.outputs)


def _alias(op: Op, rows: dict[str, Rows], alias: Alias) -> Value | None:
    if alias.source not in rows:
        op.unsupported(f"alias {alias.blob!r} is of {alias.source!r}, which is no state", code="invalid-argument")
    return _from(op, rows[alias.source], alias.offset)


def _from(op: Op, rows: Rows, offset: int) -> Value | None:
    """The rows of a state from ``offset`` on; a negative one counts from the end. None where nothing reads them."""
    if offset == -1:
        return rows.last
    if offset == 1 or rows.steps is None:
        return rows.steps
    states = op.emit("Concat", rows.initial, rows.steps, axis=0)
    return states if offset == 0 else slice_axis(op, states, 0, offset, _END)
