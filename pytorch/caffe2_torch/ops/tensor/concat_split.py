"""Concatenation, splitting and slicing along an axis."""

from __future__ import annotations

import numpy as np
import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value, sizes_tensor

family = Family("slicing")


def _axis(op: Op, rank: int) -> int:
    """Return the axis that ``axis`` names, or the channel axis of ``order``."""
    axis, order = op.args.optional_integer("axis"), op.args.text("order", default="")
    if axis is None:
        axis = 3 if order == "NHWC" else 1
    return op.axis(axis, rank)


def _adds_axis(op: Op) -> bool:
    return op.args.flag("add_axis", default=False) and "axis" in op.args


@family.converts("Concat", "DepthConcat")
def concat(op: Op) -> tuple[Value, Value]:
    op.args.ignore("split", "use_scaling_lengths")
    adds = _adds_axis(op)
    if any(isinstance(value, np.ndarray) for value in op.values):
        rows = [op.strings(i) for i in range(op.count)]
        axis = _axis(op, rows[0].ndim + adds)
        sizes = [1 if adds else row.shape[axis] for row in rows]
        return (np.stack if adds else np.concatenate)(rows, axis=axis), torch.tensor(sizes, dtype=torch.int32)
    parts = op.tensors
    axis = _axis(op, parts[0].dim() + adds)
    info = sizes_tensor([1 if adds else part.shape[axis] for part in parts], torch.int32)
    if len({part.dim() for part in parts}) > 1:
        op.refuse("the operands must have the same rank")
    return (torch.stack if adds else torch.cat)(parts, dim=axis), info


@family.converts("Append")
def append(op: Op) -> Value:
    return torch.cat(op.tensors)


@family.converts("Split", "DepthSplit")
def split(op: Op) -> tuple[Value, ...]:
    x, count = op.tensor(0), op.output_count
    axis = _axis(op, x.dim())
    op.args.ignore("use_scaling_lengths")
    given = list(op.args.integers("split", default=()))
    total = x.shape[axis]
    if _adds_axis(op):
        given = [1] * count
    elif op.has(1):
        if given:
            op.refuse("split must not be given both as argument and as operand")
        given = op.tensor(1).reshape(-1).tolist()
    elif not given:
        if total % count:
            op.refuse(f"the size of axis {axis} ({total}) must be a multiple of the number of outputs ({count})")
        given = [total // count] * count
    if len(given) != count or sum(given) != total:
        op.refuse(f"{count} sizes must sum to {total}, not {given}")
    parts = torch.split(x, given, dim=axis)
    return tuple(part.squeeze(axis) for part in parts) if _adds_axis(op) else tuple(parts)


@family.converts("SplitByLengths")
def split_by_lengths(op: Op) -> tuple[Value, ...]:
    x, lengths, count = op.tensor(0), op.tensor(1), op.output_count
    axis = _axis(op, x.dim())
    lengths = lengths.reshape(-1)[: lengths.shape[0]].to(torch.int64)
    if lengths.numel() % count:
        op.refuse(f"{lengths.numel()} lengths cannot be distributed over {count} outputs")
    shares: list[int] = lengths.reshape(count, -1).sum(1).tolist()
    if op.args.flag("use_scaling_lengths", default=False):
        factor = x.shape[axis] // max(sum(shares), 1)
        shares = [share * factor for share in shares]
        rest = x.shape[axis] - sum(shares)
        return tuple(torch.split(x, [*shares, rest], dim=axis))[:count]
    return tuple(torch.split(x, shares, dim=axis))


@family.converts("Slice")
def slice_ranges(op: Op) -> Value:
    x = op.tensor(0)
    if op.has(1):
        op.args.ignore("starts", "ends")
        starts, ends = op.tensor(1).tolist(), op.tensor(2).tolist()
    else:
        starts, ends = list(op.args.integers("starts")), list(op.args.integers("ends"))
    return slice_tensor(op, x, starts, ends)


def slice_tensor(op: Op, x: torch.Tensor, starts: list[int], ends: list[int]) -> torch.Tensor:
    """Slice the first axes; a negative index ``i`` means ``size + 1 + i``."""
    if len(starts) != len(ends) or len(starts) > x.dim():
        op.refuse(f"starts {starts} and ends {ends} do not fit rank {x.dim()}")
    for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
        size = x.shape[axis]
        first, last = (index if index >= 0 else size + 1 + index for index in (start, end))
        first, last = min(first, size), min(last, size)
        if last < first or min(first, last) < 0:
            op.refuse(f"the range from {start} to {end} does not fit axis {axis} of size {size}")
        x = x.narrow(axis, first, last - first)
    return x


@family.converts("RemoveDataBlocks")
def remove_data_blocks(op: Op) -> Value:
    x = op.tensor(0)
    keep = torch.ones(x.shape[0], dtype=torch.bool, device=x.device)
    keep[op.tensor(1).reshape(-1).to(torch.int64)] = False
    return x[keep]
