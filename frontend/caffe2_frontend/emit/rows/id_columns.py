"""Columns of sparse ids: their indices in a list of ids that is known at conversion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caffe2_frontend.emit.rows.binary_search import append_zero, search
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import INT64
from caffe2_frontend.lowering.op import Op, Value


def mask_ids(op: Op) -> tuple[int, ...]:
    """Return the ids of the argument ``mask``, which must be distinct and not negative."""
    mask = op.args.integers("mask")
    if not mask or min(mask) < 0 or len(set(mask)) < len(mask):
        op.unsupported("mask must hold distinct ids, none of them negative", code="invalid-argument")
    return mask


def columns_of_ids(op: Op, ids: Value, mask: Sequence[int]) -> Value:
    """Return the column of each id in the mask; the mask's size if it does not contain the id, or it is invalid."""
    order = np.argsort(mask)
    sorted_ids = op.const(np.array(mask)[order], np.int64)
    # Caffe2 skips the maximum of the type as an invalid id.
    maximum = np.iinfo(op.dtype(ids).numpy()).max
    valid = op.emit("Less", ids, op.const(maximum, ids))
    ids = cast(op, ids, INT64)
    index = search(op, sorted_ids, ids, "left")
    found = op.emit("And", valid, op.emit("Equal", op.emit("Gather", append_zero(op, sorted_ids), index), ids))
    within = op.emit("Less", index, op.const(len(mask), np.int64))
    column = op.emit("Gather", op.const([*order, len(mask)], np.int64), index)
    return op.emit("Where", op.emit("And", found, within), column, op.const(len(mask), np.int64))
