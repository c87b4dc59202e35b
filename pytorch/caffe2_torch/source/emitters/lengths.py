"""Lengths, segment ids and ranges, one made of another, and rows selected or repeated by them."""

from __future__ import annotations

from typing import Final

from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp, Unpacked

family = Family("lengths")

_OF_LENGTHS: Final = {"LengthsToSegmentIds": "segment_ids", "LengthsRangeFill": "positions"}


@family.emits(*_OF_LENGTHS)
def of_lengths(op: SourceOp) -> Source:
    return f"{op.call(_OF_LENGTHS[op.type], op.x(0))}.int()"


@family.emits("LengthsToOffsets")
def to_offsets(op: SourceOp) -> Source:
    if op.args.flag("include_last_offset", default=False):
        return f"F.pad({op.x(0)}.cumsum(0), (1, 0)).int()"
    return f"{op.call('starts', op.x(0))}.int()"


@family.emits("LengthsToRanges")
def to_ranges(op: SourceOp) -> Source:
    return f"torch.stack([{op.call('starts', op.x(0))}.int(), {op.x(0)}.int()], dim=1)"


@family.emits("LengthsToWeights")
def to_weights(op: SourceOp) -> Source:
    power = literal(op.args.number("power", default=0.5))
    return f"({op.x(0)}.double() ** -{power}).float().repeat_interleave({op.x(0)})"


@family.emits("SegmentIdsToLengths")
def ids_to_lengths(op: SourceOp) -> Source:
    count = f", minlength={op.x(1)}.shape[0]" if op.has(1) else ""
    ids = op.x(0) if op.rank(0) == 1 else f"{op.x(0)}.flatten()"
    return f"torch.bincount({ids}{count}).int()"


@family.emits("LengthsTile")
def tile(op: SourceOp) -> Source:
    return f"{op.x(0)}.repeat_interleave({op.x(1)}, dim=0)"


@family.emits("LengthsGather")
def gather_segments(op: SourceOp) -> Source:
    lengths, chosen = op.x(1), op.index(2)
    rows = op.call("range_rows", f"{op.call('starts', lengths)}[{chosen}]", f"{lengths}[{chosen}]")
    return f"{op.x(0)}[{rows}]"


@family.emits("GatherRanges")
def gather_ranges(op: SourceOp) -> Source:
    ranges = op.x(1)
    rows = op.call("range_rows", f"{ranges}[..., 0].flatten()", f"{ranges}[..., 1].flatten()")
    return (f"{op.x(0)}[{rows}]", f"{ranges}[..., 1].sum(1).int()")


@family.emits("LengthsSplit")
def split(op: SourceOp) -> Source:
    count = f"int({op.x(1)})" if op.has(1) else op.args.integer("n_split")
    op.args.ignore("n_split")
    return f"{op.call('split_lengths', op.x(0), str(count))}.int()"


@family.emits("LengthsTopK")
def top_k(op: SourceOp) -> Source:
    return Unpacked(op.call("top_of_segments", op.x(0), op.x(1), str(op.args.integer("k"))))
