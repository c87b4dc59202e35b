"""Cursors on datasets: records read in order, or in the order of given indices."""

from __future__ import annotations

from typing import Final

import numpy as np

from caffe2_backend.runtime.host.datasets.shuffle import Engine, shuffle
from caffe2_backend.runtime.host.datasets.tree import Tree, TreeCursor, TreeError
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import Array

family = HostFamily("dataset cursors")

_FIELDS_OF_RANDOM: Final = 3  # inputs before the fields


def tree_of(op: HostOp) -> Tree:
    """Return the tree of the argument ``fields``. Raises RunError if they are not one."""
    with op.translating(TreeError):
        return Tree.of(op.args.texts("fields", default=()))


def columns(op: HostOp, first: int) -> list[Array]:
    """Return the inputs from an index on."""
    return [op.array(index) for index in range(first, len(op.inputs))]


def _batch_size(op: HostOp) -> int:
    return op.args.integer("batch_size", default=1)


def _require_outputs(op: HostOp, number: int) -> None:
    if len(op.outputs) != number:
        raise op.error(f"the operator must have {number} outputs, not {len(op.outputs)}")


@family.runs("CreateTreeCursor")
def create_tree_cursor(op: HostOp) -> None:
    """CreateTreeCursor(; fields) -> cursor."""
    op.set(0, TreeCursor(tree_of(op)))


@family.runs("ResetCursor")
def reset_cursor(op: HostOp) -> None:
    """ResetCursor(cursor) -> (): go to the beginning."""
    cursor = op.object(0, TreeCursor)
    with cursor.lock:
        cursor.offsets = []


@family.runs("GetCursorOffset")
def get_cursor_offset(op: HostOp) -> None:
    """GetCursorOffset(cursor) -> the next element of each domain, int32; empty at the beginning."""
    op.set(0, np.array(op.object(0, TreeCursor).offsets, np.int32))


@family.runs("ReadNextBatch")
def read_next_batch(op: HostOp) -> None:
    """ReadNextBatch(cursor, field...; batch_size=1, enforce_batch_size=0) -> the next records of each field.

    At the end the outputs are empty. With ``enforce_batch_size`` the last records are skipped if they are too few.
    """
    cursor, fields = op.object(0, TreeCursor), columns(op, 1)
    _require_outputs(op, len(fields))
    batch_size = _batch_size(op)
    with cursor.lock:
        starts = cursor.starts()
        with op.translating(TreeError):
            counts = cursor.tree.counts(fields, starts, batch_size)
        cursor.offsets = [start + count for start, count in zip(starts, counts, strict=True)]
    if op.args.flag("enforce_batch_size", default=False) and counts[0] < batch_size:
        counts = [0] * len(counts)
    for i, (field, domain) in enumerate(zip(fields, cursor.tree.domains, strict=True)):
        op.set(i, field[starts[domain] : starts[domain] + counts[domain]].copy())


@family.runs("ComputeOffset")
def compute_offset(op: HostOp) -> None:
    """ComputeOffset(cursor, field...) -> where each record begins in each domain: int64 [records + 1, domains].

    The cursor goes to the beginning. The records are those from the cursor on.
    """
    cursor, fields = op.object(0, TreeCursor), columns(op, 1)
    with cursor.lock:
        with op.translating(TreeError):
            out = cursor.tree.offsets(fields, cursor.starts())
        cursor.offsets = [0] * cursor.tree.domain_count
    op.set(0, out)


@family.runs("SortAndShuffle")
def sort_and_shuffle(op: HostOp) -> None:
    """SortAndShuffle(cursor, field...; sort_by_field_idx=1, batch_size=1, shuffle_size=1) -> indices of the records.

    Sort the records by a field of the root domain (-1 does not), shuffle them within groups of ``shuffle_size``
    batches, then shuffle the batches; records that do not fill a batch come last. As in Caffe2, the order of the
    shuffles is always the same.
    """
    cursor = op.object(0, TreeCursor)
    by = op.args.integer("sort_by_field_idx", default=1)
    batch = _batch_size(op)
    group = batch * op.args.integer("shuffle_size", default=1)
    if batch < 1 or group < 1:
        raise op.error("batch_size and shuffle_size must be 1 at least")
    if not -1 <= by < len(cursor.tree.fields):
        raise op.error(
            f"sort_by_field_idx must be -1 or the index of one of {len(cursor.tree.fields)} fields, not {by}"
        )
    if by >= 0 and cursor.tree.domains[by]:
        raise op.error(f"field {cursor.tree.fields[by]!r} must be outside of all lists to sort by it")
    field = op.array(by + 1, np.int32) if by >= 0 else op.array(1)
    indices = np.arange(len(field)) if by < 0 else np.argsort(field.reshape(-1), kind="stable")
    if group > 1:
        for start in range(0, len(indices) - group, group):
            shuffle(indices[start : start + group], Engine())
    whole = len(indices) // batch * batch
    batches = np.arange(len(indices) // batch)
    shuffle(batches, Engine())
    op.set(0, np.concatenate((indices[:whole].reshape(-1, batch)[batches].reshape(-1), indices[whole:])))


@family.runs("ReadRandomBatch")
def read_random_batch(op: HostOp) -> None:
    """ReadRandomBatch(cursor, indices, offsets, field...; batch_size=1, enforce_batch_size=0, loop_over=0) -> fields.

    Records at the next indices: ``offsets`` is ComputeOffset's. With ``loop_over`` the indices begin again at the end.
    """
    cursor, indices, offsets = op.object(0, TreeCursor), op.array(1, np.int64).reshape(-1), op.array(2, np.int64)
    fields = columns(op, _FIELDS_OF_RANDOM)
    if len(fields) != len(cursor.tree.fields):
        raise op.error(f"{len(cursor.tree.fields)} fields need as many inputs, not {len(fields)}")
    _require_outputs(op, len(fields))
    picked = indices[_next_indices(op, cursor, len(indices))]
    if offsets.ndim != 2 or (picked.size and not 0 <= picked.min() <= picked.max() < len(offsets) - 1):
        raise op.error(f"the offsets of shape {list(offsets.shape)} do not have all records of the indices")
    for i, (field, domain) in enumerate(zip(fields, cursor.tree.domains, strict=True)):
        parts = [field[offsets[row, domain] : offsets[row + 1, domain]] for row in picked]
        op.set(i, np.concatenate(parts) if parts else field[:0].copy())


def _next_indices(op: HostOp, cursor: TreeCursor, total: int) -> slice:
    """Move a cursor by a batch; return which indices to read."""
    batch_size = _batch_size(op)
    with cursor.lock:
        start = cursor.offsets[0] if cursor.offsets else 0
        if op.args.flag("enforce_batch_size", default=False) and start + batch_size > total:
            start = total
        if op.args.flag("loop_over", default=False) and start >= total:
            cursor.offsets = [0]
            start = 0
        cursor.offsets = [(cursor.offsets[0] if cursor.offsets else 0) + batch_size]
    return slice(start, min(start + batch_size, total))


@family.runs("CheckDatasetConsistency")
def check_dataset_consistency(op: HostOp) -> None:
    """CheckDatasetConsistency(field...; fields) -> (): raise an error unless the fields make up whole records."""
    tree, fields = tree_of(op), columns(op, 0)
    with op.translating(TreeError):
        tree.check(fields)
    sizes: dict[int, tuple[str, int]] = {}
    for name, field, domain in zip(tree.fields, fields, tree.domains, strict=True):
        other, size = sizes.setdefault(domain, (name, len(field)))
        if size != len(field):
            raise op.error(f"field {name!r} has {len(field)} elements, and {other!r} of the same list has {size}")
    starts = [0] * tree.domain_count
    with op.translating(TreeError):
        counts = tree.counts(fields, starts, sizes[0][1] if 0 in sizes else 0)
    for domain, (name, size) in sizes.items():
        if counts[domain] != size:
            raise op.error(f"field {name!r} has {size} elements, and its lengths need {counts[domain]}")


@family.runs("TrimDataset")
def trim_dataset(op: HostOp) -> None:
    """TrimDataset(field...; fields, multiple_of) -> fields, without the last records over a multiple of a number."""
    multiple = op.args.integer("multiple_of")
    if multiple < 1:
        raise op.error(f"multiple_of must be 1 at least, not {multiple}")
    tree, fields = tree_of(op), columns(op, 0)
    _require_outputs(op, len(fields))
    with op.translating(TreeError):
        size = tree.sizes(fields)[0]
    if size % multiple:
        with op.translating(TreeError):
            counts = tree.counts(fields, [0] * tree.domain_count, size - size % multiple)
        for i, (field, domain) in enumerate(zip(fields, tree.domains, strict=True)):
            op.set(i, field[: counts[domain]].copy())
