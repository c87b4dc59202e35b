"""Encodings of categories: one-hot rows, buckets, hashes and n-grams."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, require_rows
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.segments import segment_ids

family = Family("encoding")


def _require_below(op: Op, index: torch.Tensor, size: int) -> None:
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < size:
        op.refuse(f"indices must be from 0 to {size - 1}")


@family.converts("OneHot")
def one_hot(op: Op) -> Value:
    index, width = op.tensor(0), int(op.tensor(1).reshape(-1)[0])
    _require_below(op, index, width)
    return (index.unsqueeze(1) == torch.arange(width, device=index.device)).to(torch.float32)


@family.converts("SegmentOneHot")
def segment_one_hot(op: Op) -> Value:
    lengths, index, width = lengths_of(op, 0), op.tensor(1), int(op.tensor(2).reshape(-1)[0])
    _require_below(op, index, width)
    require_rows(op, lengths, index)
    result = torch.zeros((lengths.shape[0], width))
    result[segment_ids(lengths), index] = 1.0
    return result


@family.converts("BatchOneHot")
def batch_one_hot(op: Op) -> Value:
    x, lengths, values = op.tensor(0), lengths_of(op, 1), op.tensor(2)
    require_rows(op, lengths, values)
    return (x[:, segment_ids(lengths)] == values).to(x.dtype)


@family.converts("Bucketize")
def bucketize(op: Op) -> Value:
    boundaries = op.args.numbers("boundaries")
    if any(a > b for a, b in pairwise(boundaries)):
        op.refuse("boundaries must be sorted in ascending order")
    x = op.tensor(0)
    index = torch.searchsorted(torch.tensor(boundaries, dtype=x.dtype), x.contiguous(), out_int32=True)
    return torch.where(torch.isnan(x), torch.zeros_like(index), index)  # no boundary is below a NaN


@family.converts("BatchBucketize")
def batch_bucketize(op: Op) -> Value:
    x = op.tensor(0)[:, op.tensor(1).to(torch.int64)]
    parts = torch.split(op.tensor(2), lengths_of(op, 3).tolist())
    found = [torch.searchsorted(part, x[:, i].contiguous()) for i, part in enumerate(parts)]
    return torch.stack(found, dim=1).to(torch.int32)


@family.converts("BatchBucketOneHot")
def batch_bucket_one_hot(op: Op) -> Value:
    """Put an element that equals several boundaries into the middle one of the buckets that these delimit."""
    x, columns = op.tensor(0), []
    for i, part in enumerate(torch.split(op.tensor(2), lengths_of(op, 1).tolist())):
        own = x[:, i].contiguous()
        bucket = (torch.searchsorted(part, own) + torch.searchsorted(part, own, right=True)) // 2
        columns.append(bucket.unsqueeze(1) == torch.arange(part.shape[0] + 1))
    return torch.cat(columns, dim=1).to(torch.float32)


@family.converts("IndexHash")
def index_hash(op: Op) -> Value:
    """Return a polynomial of the bytes, as signed chars, in integers that wrap around."""
    x = op.tensor(0)
    seed, modulo = op.args.integer("seed", default=0), op.args.integer("modulo", default=0)
    if modulo < 1:
        op.refuse(f"modulo must be positive: {modulo}")
    array = x.numpy()
    unsigned: Any = np.uint64 if x.dtype == torch.int64 else np.uint32
    wide = array.astype(unsigned)
    mask = (1 << (8 * array.itemsize)) - 1
    total = np.full(array.shape, (seed * 0xDEADBEEF) & mask, unsigned)
    for byte in range(array.itemsize):
        signed = ((wide >> unsigned(8 * byte)) & unsigned(0xFF)).astype(np.uint8).view(np.int8)
        total = total * unsigned(65537) + signed.astype(array.dtype).astype(unsigned)
    hashed = total.astype(array.dtype)
    return torch.from_numpy(np.mod(hashed, array.dtype.type(modulo)))


@family.converts("NGramFromCategorical")
def ngram_from_categorical(op: Op) -> Value:
    """Read rounded columns as digits of a mixed-radix number: the index of each among its column's values, or 0."""
    x = op.tensor(0)
    columns, limits, values = (op.args.integers(name) for name in ("col_ids", "categorical_limits", "vals"))
    if len(columns) != len(limits) or sum(limits) != len(values):
        op.refuse("there must be one of categorical_limits for each of col_ids, and they must sum to len(vals)")
    x = x.reshape(x.shape[0], -1)
    rounded = (torch.sign(x) * torch.floor(x.abs() + 0.5)).to(torch.int64)
    result = torch.zeros(x.shape[0], dtype=torch.int64)
    bases = accumulate((1, *limits), lambda a, b: a * b)
    start = 0
    for column, limit, base in zip(columns, limits, bases, strict=False):
        digits = {value: index for index, value in enumerate(values[start : start + limit])}
        result += base * torch.tensor([digits.get(item, 0) for item in rounded[:, column].tolist()], dtype=torch.int64)
        start += limit
    return result
