"""Conversion of sparse rows and ranges to dense tensors, and back."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, require_rows
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.segments import segment_count, segment_ids, sum_rows

family = Family("sparse")


@family.converts("SparseToDense")
def sparse_to_dense(op: Op) -> Value:
    ids, x = op.tensor(0).to(torch.int64), op.tensor(1)
    rows = op.args.integer("output_first_dim", default=0)
    if rows <= 0:
        rows = op.tensor(2).shape[0] if op.has(2) else segment_count(ids)
    return sum_rows(x, ids, rows)


@family.converts("SparseToDenseMask")
def sparse_to_dense_mask(op: Op) -> tuple[Value, Value]:
    """Return for each id in ``mask`` the last value of a segment with that index, or the default."""
    op.args.ignore("max_skipped_indices")
    mask = op.args.integers("mask")
    ids, x, default = op.tensor(0), op.tensor(1), op.tensor(2)
    segments = segment_ids(lengths_of(op, 3)).tolist() if op.has(3) else [0] * ids.shape[0]
    if op.has(3):
        require_rows(op, lengths_of(op, 3), ids)
    count = op.tensor(3).shape[0] if op.has(3) else 1
    columns = {item: column for column, item in reversed([*enumerate(mask)])}
    source = torch.full((count, len(mask)), -1, dtype=torch.int64)
    for row, (item, segment) in enumerate(zip(ids.tolist(), segments, strict=True)):
        if item in columns and item != torch.iinfo(ids.dtype).max:  # which is an invalid id
            source[segment, columns[item]] = row
    present = source >= 0
    table = torch.cat([x, default.reshape(1, *x.shape[1:])])
    dense = table[torch.where(present, source, x.shape[0])]
    wants = op.args.flag("return_presence_mask", default=False)
    if not op.has(3):
        dense, present = dense[0], present[0]
    return dense, present if wants else None


def _positions(op: Op, columns: int) -> torch.Tensor:
    """Return the positions of the elements of segments in a flattened matrix of so many columns."""
    lengths, ids = lengths_of(op, 0), op.tensor(1).to(torch.int64)
    require_rows(op, lengths, ids)
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < columns:
        op.refuse(f"indices must be from 0 to {columns - 1}")
    return segment_ids(lengths) * columns + ids


@family.converts("BatchSparseToDense")
def batch_sparse_to_dense(op: Op) -> Value:
    values, default = op.tensor(2), op.args.number("default_value", default=0.0)
    width = op.args.integer("dense_last_dim", default=-1)
    if op.has(3):
        width = op.tensor(3).shape[1] if width == -1 else width
    if width < 1:
        op.refuse(f"dense_last_dim must be positive without a fourth operand, not {width}")
    rows = op.tensor(0).shape[0]
    dense = values.new_full((rows * width,), default)
    return dense.index_copy(0, _positions(op, width), values).reshape(rows, width)


@family.converts("BatchDenseToSparse")
def batch_dense_to_sparse(op: Op) -> Value:
    op.args.ignore("dense_last_dim", "default_value")
    dense = op.tensor(2)
    return dense.reshape(-1)[_positions(op, dense.shape[1])]


@family.converts("GatherRangesToDense")
def gather_ranges_to_dense(op: Op) -> tuple[Value, ...]:
    """Return zeros where the length of a range differs from the argument; with keys sort the elements by them."""
    op.args.ignore("min_observation", "max_mismatched_ratio", "max_empty_ratio")
    lengths, x, ranges = op.args.integers("lengths"), op.tensor(0), op.tensor(1).to(torch.int64)
    outputs = []
    for index, length in enumerate(lengths):
        start, own = ranges[:, index].unbind(1)
        present = (own == length).unsqueeze(1)
        rows = torch.where(present, start.unsqueeze(1) + torch.arange(length), 0)
        if op.has(2):
            order = torch.sort(op.tensor(2)[rows], dim=1, stable=True)[1]
            rows = rows.gather(1, order)
        gathered = x[rows] if x.numel() else x.new_zeros(rows.shape)
        outputs.append(torch.where(present, gathered, torch.zeros_like(gathered)))
    return tuple(outputs)


@family.converts("SparseDropoutWithReplacement")
def sparse_dropout_with_replacement(op: Op) -> tuple[Value, Value]:
    x, lengths = op.tensor(0), lengths_of(op, 1)
    ratio, replacement = op.args.number("ratio", default=0.0), op.args.integer("replacement_value", default=0)
    kept = torch.rand(lengths.shape[0]) >= ratio
    parts = [
        part if keep else x.new_tensor([replacement])
        for part, keep in zip(torch.split(x, lengths.tolist()), kept.tolist(), strict=True)
    ]
    return torch.cat(parts) if parts else x, torch.where(kept, lengths, 1).to(torch.int32)
