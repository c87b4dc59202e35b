"""Gradients of padding, packing and masks of sequences, and of the units of recurrent nets."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("sequence")

family.pattern("X0 dY0 -> dX1", PackSegments="UnpackSegments", UnpackSegments="PackSegments")
family.pattern(
    "dY0 X1 -> dX0",
    LengthsTile="LengthsSum", PackRNNSequence="UnpackRNNSequence", ReversePackedSegs="ReversePackedSegs",
    UnpackRNNSequence="PackRNNSequence",
)  # fmt: skip


@family.differentiates("GRUUnit", "LSTMUnit")
def recurrent_unit(op: Forward) -> None:
    """Differentiate a unit by its states and gates.

    GRUUnitGradient(H_prev, gates, [lengths], t, H, dH) -> dH_prev, dgates;
    LSTMUnitGradient(H_prev, C_prev, gates, [lengths], t, H, C, dH, dC) -> dH_prev, dC_prev, dgates.
    """
    differentiable = {"GRUUnit": 2, "LSTMUnit": 3}[op.type]
    states = differentiable - 1
    count = differentiable + 1 + op.args.flag("sequence_lengths", default=True)
    inputs = [*map(op.x, range(count)), *map(op.y, range(states)), *map(op.dy, range(states))]
    op.emit(f"{op.type}Gradient", inputs, [op.dx(index) for index in range(differentiable)])


@family.differentiates("AddPadding")
def add_padding(op: Forward) -> None:
    """RemovePadding(dY, [lengths]) -> dX; GatherPadding(dY, [lengths]) -> dpadding for the given paddings."""
    lengths = [op.y(1)] if len(op.inputs) > 1 else []
    op.emit("RemovePadding", [op.dy(0), *lengths], [op.dx(0)])
    if len(op.inputs) > 2:
        op.emit("GatherPadding", [op.dy(0), *lengths], [op.dx(index) for index in range(2, len(op.inputs))])


@family.differentiates("RemovePadding")
def remove_padding(op: Forward) -> None:
    """AddPadding(dY, [lengths]) -> dX."""
    lengths = [op.y(1)] if len(op.inputs) > 1 else []
    op.emit("AddPadding", [op.dy(0), *lengths], [op.dx(0)])


@family.differentiates("SequenceMask", copies_arguments=False)
def sequence_mask(op: Forward) -> None:
    """SequenceMask(dY, ...; grad=1) -> dX, which fills zeros."""
    op.emit("SequenceMask", [op.dy(0), *op.inputs[1:]], [op.dx(0)])
    op.operators[-1].arg.extend(op.proto.arg)
    op.operators[-1].arg.add(name="grad", i=1)
