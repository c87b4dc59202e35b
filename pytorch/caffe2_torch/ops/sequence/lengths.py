"""Conversions between lengths, offsets, segment ids and ranges, and rows selected or repeated by them."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.segments import positions, range_rows, segment_ids, split_lengths, starts, top_of_segments

family = Family("lengths")


@family.converts("LengthsToOffsets")
def lengths_to_offsets(op: Op) -> Value:
    lengths = lengths_of(op, 0)
    if not op.args.flag("include_last_offset", default=False):
        return starts(lengths).to(torch.int32)
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)


@family.converts("LengthsToRanges")
def lengths_to_ranges(op: Op) -> Value:
    lengths = lengths_of(op, 0)
    return torch.stack([starts(lengths), lengths], dim=1).to(torch.int32)


@family.converts("LengthsToSegmentIds")
def lengths_to_segment_ids(op: Op) -> Value:
    return segment_ids(lengths_of(op, 0)).to(torch.int32)


@family.converts("LengthsRangeFill")
def lengths_range_fill(op: Op) -> Value:
    return positions(lengths_of(op, 0)).to(torch.int32)


@family.converts("LengthsToShape")
def lengths_to_shape(op: Op) -> Value:
    lengths = lengths_of(op, 0)
    if lengths.numel() == 0 or bool((lengths != lengths[0]).any()):
        op.refuse("the lengths must be equal")
    return torch.tensor([lengths.shape[0], int(lengths[0])], dtype=torch.int32)


@family.converts("LengthsToWeights")
def lengths_to_weights(op: Op) -> Value:
    lengths = lengths_of(op, 0)
    weights = torch.pow(lengths.to(torch.float64), -op.args.number("power", default=0.5))
    return weights[segment_ids(lengths)].to(torch.float32)


def _segments(op: Op) -> tuple[torch.Tensor, int, int]:
    """Return segment ids [N], the number of segments, and of those up to the maximum id."""
    ids = op.tensor(0).to(torch.int64)
    ids = ids.reshape(-1)[: ids.shape[0]]
    used = int(ids.max()) + 1 if ids.numel() else 0
    count = op.tensor(1).shape[0] if op.has(1) else used
    if used > count or (ids.numel() > 1 and bool((ids[1:] < ids[:-1]).any())):
        op.refuse("segment ids must be sorted, and less than the number of segments")
    return ids, count, used


@family.converts("SegmentIdsToLengths")
def segment_ids_to_lengths(op: Op) -> Value:
    ids, count, _ = _segments(op)
    return torch.bincount(ids, minlength=count).to(torch.int32)


@family.converts("SegmentIdsToRanges")
def segment_ids_to_ranges(op: Op) -> Value:
    ids, count, used = _segments(op)
    lengths = torch.bincount(ids, minlength=count)
    start = starts(lengths)
    start[used:] = 0
    return torch.stack([start, lengths], dim=1).to(torch.int32)


@family.converts("LengthsGather")
def lengths_gather(op: Op) -> Value:
    lengths, selected = lengths_of(op, 1), op.tensor(2).to(torch.int64)
    return op.tensor(0)[range_rows(starts(lengths)[selected], lengths[selected])]


@family.converts("GatherRanges")
def gather_ranges(op: Op) -> tuple[Value, Value]:
    x, ranges = op.tensor(0), op.tensor(1)
    if ranges.dim() != 3 or x.dim() != 1:
        op.refuse("ranges must be [B, R, 2], and data a vector")
    start, length = ranges.to(torch.int64).unbind(2)
    rows = range_rows(start.reshape(-1), length.reshape(-1))
    return x[rows], length.sum(1).to(torch.int32)


@family.converts("LengthsTile")
def lengths_tile(op: Op) -> Value:
    lengths = lengths_of(op, 1)
    if lengths.shape[0] != op.tensor(0).shape[0]:
        op.refuse("there must be one length for each row")
    return op.tensor(0)[segment_ids(lengths)]


@family.converts("LengthsSplit")
def lengths_split(op: Op) -> Value:
    n = op.args.integer("n_split", default=0)
    n = int(op.tensor(1).reshape(-1)[0]) if op.has(1) else n
    if n < 1:
        op.refuse(f"n_split must be at least 1, not {n}")
    return split_lengths(lengths_of(op, 0), n).to(torch.int32)


@family.converts("LengthsTopK")
def lengths_top_k(op: Op) -> tuple[Value, Value]:
    lengths, k = lengths_of(op, 1), op.args.integer("k", default=-1)
    if k < 1:
        op.refuse(f"k must be positive, not {k}")
    return top_of_segments(op.tensor(0), lengths, k)


@family.converts("LengthsPartition")
def lengths_partition(op: Op) -> tuple[Value, ...]:
    count = op.output_count // op.count
    lengths, ids, *extra = op.tensors
    pack = bool(op.args.integer("pack_first_input", default=0))
    if count == 1:
        return (lengths, ids, *extra)
    segments = segment_ids(lengths.reshape(-1).to(torch.int64))
    remainder = torch.remainder(ids, count)
    packed = torch.div(ids - remainder, count, rounding_mode="trunc") if pack else ids
    outputs: list[Value] = []
    for index in range(count):
        inside = remainder == index
        counts = torch.bincount(segments[inside], minlength=lengths.numel()).to(torch.int32)
        outputs += [counts, *(x[inside] for x in (packed, *extra))]
    return tuple(outputs)
