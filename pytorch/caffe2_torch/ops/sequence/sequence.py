"""Packing of sequences of different lengths into one tensor, padding around them, and masks."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, require_rows
from caffe2_torch.evaluation.values import Strings, Value
from caffe2_torch.functions.segments import grid, padded_rows, positions, segment_ids, starts

family = Family("sequence")


def _longest(lengths: torch.Tensor) -> int:
    return int(lengths.max()) if lengths.numel() else 0


@family.converts("PackSegments")
def pack_segments(op: Op) -> tuple[Value, Value]:
    lengths, width = lengths_of(op, 0), op.args.integer("max_length", default=-1)
    width = _longest(lengths) if width == -1 else width
    infinite = op.args.flag("pad_minf", default=False)
    wants_mask = op.args.flag("return_presence_mask", default=False)
    present = grid(lengths, width)[0] if wants_mask else None
    if isinstance(op.values[1], np.ndarray):
        rows = op.strings(1)
        packed = np.full((lengths.shape[0], width, *rows.shape[1:]), "", object)
        start = 0
        for index, length in enumerate(lengths.tolist()):
            kept = min(length, width)
            packed[index, :kept] = rows[start : start + kept]
            start += length
        return packed, present
    x = op.tensor(1)
    require_rows(op, lengths, x)
    return padded_rows(x, lengths, width, -math.inf if infinite and x.is_floating_point() else 0), present


@family.converts("UnpackSegments")
def unpack_segments(op: Op) -> Value:
    lengths, width = lengths_of(op, 0), op.args.integer("max_length", default=-1)
    value = op.values[1]
    if isinstance(value, np.ndarray):
        present, _ = grid(lengths, value.shape[1])
        unpacked: Strings = value[present.numpy()]
        return unpacked
    x = op.tensor(1)
    if width not in (-1, x.shape[1]):
        op.refuse(f"max_length must be dim 1 of the data ({x.shape[1]}), not {width}")
    return x[grid(lengths, x.shape[1])[0]]


@family.converts("PackRNNSequence")
def pack_rnn_sequence(op: Op) -> Value:
    x, lengths = op.tensor(0), lengths_of(op, 1)
    require_rows(op, lengths, x)
    return padded_rows(x, lengths, _longest(lengths)).transpose(0, 1)


@family.converts("UnpackRNNSequence")
def unpack_rnn_sequence(op: Op) -> Value:
    x, lengths = op.tensor(0), lengths_of(op, 1)
    return x.transpose(0, 1)[grid(lengths, x.shape[0])[0]]


@family.converts("ReversePackedSegs")
def reverse_packed_segments(op: Op) -> Value:
    x, lengths = op.tensor(0), lengths_of(op, 1)
    step = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    source = torch.where(step < lengths, lengths - 1 - step, step)
    return x.gather(0, source.unsqueeze(2).expand_as(x))


@family.converts("VariableLengthSequencePadding")
def variable_length_sequence_padding(op: Op) -> Value:
    x, lengths = op.tensor(0), lengths_of(op, 1)
    inside = torch.arange(x.shape[0], device=x.device).unsqueeze(1) < lengths
    return torch.where(inside.unsqueeze(2), x, torch.zeros_like(x))


@family.converts("LengthsPad")
def lengths_pad(op: Op) -> Value:
    x, lengths = op.tensor(0), lengths_of(op, 1)
    value, width = op.args.number("padding_value", default=-1.0), op.args.integer("target_length", default=-1)
    if width < 1 or _longest(lengths) > width:
        op.refuse(f"target_length must be positive, and no segment longer, not {width}")
    filled = value if x.is_floating_point() else int(value)
    return padded_rows(x, lengths, width, filled).flatten(0, 1)


@family.converts("PadEmptySamples")
def pad_empty_samples(op: Op) -> tuple[Value, ...]:
    """Replace an empty segment by one row of zeros."""
    lengths = lengths_of(op, 0)
    longer = lengths.clamp(min=1)
    present = positions(longer) < lengths[segment_ids(longer)]
    fields = []
    for x in op.tensors[1:]:
        result = x.new_zeros((present.shape[0], *x.shape[1:]))
        fields.append(result.index_copy(0, present.nonzero().reshape(-1), x))
    return longer.to(op.tensor(0).dtype), *fields


def _widths(op: Op) -> tuple[int, int]:
    """Return the numbers of rows of padding before and after each segment."""
    before, after = op.args.integer("padding_width", default=1), op.args.integer("end_padding_width", default=-1)
    if before < 0:
        op.refuse(f"padding_width must not be negative, not {before}")
    return before, before if after < 0 else after


def _lengths_or_all(op: Op, x: torch.Tensor) -> torch.Tensor:
    """Return the lengths; without them all rows are one segment."""
    lengths = op.tensor(1).reshape(-1).to(torch.int64) if op.has(1) else torch.tensor([x.shape[0]])
    require_rows(op, lengths, x)
    return lengths


@family.converts("AddPadding")
def add_padding(op: Op) -> tuple[Value, Value]:
    x, (before, after) = op.tensor(0), _widths(op)
    if before == after == 0:
        return x, op.optional(1)
    first = op.tensor(2).reshape(1, *x.shape[1:]) if op.has(2) else x.new_zeros((1, *x.shape[1:]))
    last = op.tensor(3).reshape(1, *x.shape[1:]) if op.has(3) else first
    lengths = _lengths_or_all(op, x)
    parts: list[torch.Tensor] = []
    for rows in torch.split(x, lengths.tolist()):
        parts += [first] * before + [rows] + [last] * after
    longer = (lengths + before + after).to(torch.int32)
    return torch.cat(parts) if parts else x, longer


@family.converts("RemovePadding")
def remove_padding(op: Op) -> tuple[Value, Value]:
    x, (before, after) = op.tensor(0), _widths(op)
    if before == after == 0:
        return x, op.optional(1)
    lengths = _lengths_or_all(op, x)
    position, end = positions(lengths), (lengths - after)[segment_ids(lengths)]
    return x[(position >= before) & (position < end)], (lengths - before - after).to(torch.int32)


@family.converts("GatherPadding")
def gather_padding(op: Op) -> tuple[Value, ...]:
    x, (before, after) = op.tensor(0), _widths(op)
    if before == after == 0:
        zero = torch.zeros((), dtype=torch.int64)
        return zero, zero
    lengths = op.tensor(1).reshape(-1).to(torch.int64)
    start = starts(lengths).unsqueeze(1)
    first = (start + torch.arange(before)).reshape(-1)
    last = (start + lengths.unsqueeze(1) + torch.arange(-after, 0)).reshape(-1)
    sums = [x[rows].sum(0, dtype=x.dtype) for rows in (first, last)]
    return tuple(sums) if op.wants(1) else (sums[0] + sums[1],)


_TRIANGLES: Final = {"upper": torch.gt, "lower": torch.lt, "upperdiag": torch.ge, "lowerdiag": torch.le}


@family.converts("SequenceMask")
def sequence_mask(op: Op) -> Value:
    """Fill the elements that do not count; dims before ``axis`` are rows, those from it on columns."""
    x = op.tensor(0)
    axis, mode = op.axis(op.args.integer("axis", default=1), x.dim()), op.args.text("mode")
    radius = op.args.integer("radius", default=10)
    fill = op.args.number("fill_val", default=-math.inf)
    fill = 0.0 if op.args.flag("grad", default=False) else fill
    batch, repeat = op.args.optional_integer("batch"), op.args.optional_integer("repeat_from_axis")
    first = 0 if batch is None else op.axis(batch, x.dim()) + 1
    end = x.dim() if repeat is None else op.axis(repeat, x.dim())
    if first > axis or end < axis or (repeat is not None and (mode != "sequence" or batch is not None)):
        op.refuse("batch must be below axis, and repeat_from_axis not, which requires mode 'sequence' without batch")
    rows, columns = math.prod(x.shape[first:axis]), math.prod(x.shape[axis:end])
    column, row = torch.arange(columns, device=x.device), torch.arange(rows, device=x.device).unsqueeze(1)
    if mode in _TRIANGLES:
        outside = _TRIANGLES[mode](column, row)
    elif mode in ("sequence", "window"):
        own = op.tensor(1).reshape(-1)[:rows].unsqueeze(1)
        outside = column >= own if mode == "sequence" else (column > own + radius) | (column < own - radius)
    else:
        op.refuse(f"mode must be one of sequence, window, {', '.join(_TRIANGLES)}, not {mode!r}")
    outside = outside.reshape(*x.shape[first:end], *[1] * (x.dim() - end))
    return torch.where(outside, torch.full_like(x, fill), x)
