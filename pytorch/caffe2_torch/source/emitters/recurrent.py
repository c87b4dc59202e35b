"""The units of recurrent cells, and masks over sequences."""

from __future__ import annotations

import math

from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp, Unpacked

family = Family("recurrent")


def _lengths(op: SourceOp, first: int) -> tuple[str, str]:
    """Return the lengths and the step, which come last; None where all rows have the same length."""
    if not op.args.flag("sequence_lengths", default=True) or not op.has(first + 1):
        return "None", "0"
    return op.x(first), op.x(first + 1)


def _chosen(op: SourceOp, *, forget_bias: bool) -> dict[str, object]:
    bias = op.args.number("forget_bias", default=0.0)
    chosen: dict[str, object] = {"forget_bias": bias} if forget_bias and bias else {}
    return chosen | ({"drop_states": True} if op.args.flag("drop_states", default=False) else {})


@family.emits("LSTMUnit")
def lstm_unit(op: SourceOp) -> Source:
    if op.count < (5 if op.args.flag("sequence_lengths", default=True) else 4):
        op.refuse("the operator of releases before February 2017, without a hidden state, is not supported")
    chosen = _chosen(op, forget_bias=True)
    return Unpacked(op.call("lstm_unit", op.x(0), op.x(1), op.x(2), *_lengths(op, 3), **chosen))


@family.emits("GRUUnit")
def gru_unit(op: SourceOp) -> Source:
    return op.call("gru_unit", op.x(0), op.x(1), *_lengths(op, 2), **_chosen(op, forget_bias=False))


@family.emits("SequenceMask")
def sequence_mask(op: SourceOp) -> Source:
    op.args.ignore("radius")
    plain = op.args.text("mode") == "sequence" and not op.args.flag("grad", default=False)
    axis = op.axis("axis", 1)
    if not plain or "batch" in op.args or "repeat_from_axis" in op.args or axis != 1:
        op.refuse("only mode 'sequence' along axis 1 is supported")
    fill = op.args.number("fill_val", default=-math.inf)
    return op.call("sequence_mask", op.x(0), op.x(1), str(axis), literal(fill))
