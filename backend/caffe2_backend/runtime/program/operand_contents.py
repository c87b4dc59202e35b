"""What real Caffe2 requires of the contents of operands: ids, labels and lengths, which are small, and probabilities.

A rule takes an operator and those operands that are known, the others None, and says what is wrong with the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from caffe2_bridge.netdef.views import OpView

# Lengths may be for fewer rows than there are.
_AT_MOST = frozenset({"AddPadding", "LambdaRankNdcg"})


def indices(axis: int = 0, what: str = "index") -> Callable[[OpView, Sequence[Any]], str | None]:
    """Return the rule of indices of an axis of the second operand, if that is known; ``what`` names one."""

    def rule(op: OpView, operands: Sequence[Any]) -> str | None:
        ids, table = operands[0], operands[1] if len(operands) > 1 else None
        limit = None if table is None or len(table.shape) <= axis else table.shape[axis]
        if limit is None and "num_segments" in op.args:
            limit = op.args.integer("num_segments")
        return _outside(ids, limit, what)

    return rule


def keys(op: OpView, operands: Sequence[Any]) -> str | None:
    """Keys, of which the lower 32 bits count."""
    return _outside(operands[0].astype(np.int32), op.args.integer("categorical_limit"), "key")


def lookups(_: OpView, operands: Sequence[Any]) -> str | None:
    """Ids of rows of a table, and the lengths of their segments."""
    ids, table, lengths = operands
    wrong = _outside(ids, None if table is None or not table.shape else table.shape[0], "index")
    return wrong or (_outside(lengths, None, "length") if isinstance(lengths, np.ndarray) else None)


def labels(op: OpView, operands: Sequence[Any]) -> str | None:
    """Labels of rows of scores, or the probability of each."""
    found, scores = operands
    if scores is not None and scores.shape:
        axis = op.args.integer("axis", default=1) if len(scores.shape) > 1 else 0  # a vector is one row
        rows, classes = prod(scores.shape[:axis]), prod(scores.shape[axis:])
        if op.args.flag("label_prob", default=False):
            if prod(found.shape[:axis]) != rows or prod(found.shape[axis:]) != classes:
                return f"the labels must have the shape {list(scores.shape)}, not {list(found.shape)}"
            return None if op.type.endswith("Gradient") else _not_distributions(found.reshape(rows, classes))
        if prod(found.shape) != rows or prod(found.shape[: axis or None]) != rows:
            return f"the labels must be one for each of {rows} rows, not of shape {list(found.shape)}"
        return _outside(found, classes, "label")
    return None if op.args.flag("label_prob", default=False) else _outside(found, None, "label")


def labels_of_pixels(_: OpView, operands: Sequence[Any]) -> str | None:
    """Labels [N, H, W] of scores [N, classes, H, W]; -1 for none."""
    found, scores = operands
    if scores is not None and found.shape[:1] != scores.shape[:1]:
        return f"the labels must be for {scores.shape[0]} images, not {found.shape[0]}"
    return _outside(found, None if scores is None or len(scores.shape) < 2 else scores.shape[1], "label", least=-1)


def probabilities(_: OpView, operands: Sequence[Any]) -> str | None:
    """Soft labels between 0 and 1."""
    found = operands[0]
    if not found.size or found.dtype.kind != "f" or (found.min() >= 0 and found.max() <= 1):  # not so for a NaN
        return None
    return f"labels must be between 0 and 1, not {found.min():g} to {found.max():g}"


def segments(_: OpView, operands: Sequence[Any]) -> str | None:
    """Sorted segment ids without gaps."""
    ids = operands[0].reshape(-1)
    if not ids.size:
        return None
    steps = np.diff(ids)
    if ids[0] != 0 or (steps.size and (steps.min() < 0 or steps.max() > 1)):
        return "segment ids must start at 0, and each must be that before it or the next number"
    return None


def sorted_ids(_: OpView, operands: Sequence[Any]) -> str | None:
    """Sorted segment ids."""
    ids = operands[0].reshape(-1)
    if not ids.size:
        return None
    steps = np.diff(ids)
    if steps.size and steps.min() < 0:
        return "segment ids must be sorted"
    return _outside(ids[:1], None, "segment id")


def lengths(op: OpView, operands: Sequence[Any]) -> str | None:
    """Lengths of segments of the second operand, and of the columns of the third, if they are known."""
    found, data, *others = operands
    if (outside := _outside(found, None, "length")) is not None:
        return outside
    if others and others[0] is not None and len(others[0].shape) == 2 and found.size != others[0].shape[1]:
        return f"there must be a length for each of {others[0].shape[1]} columns, not {found.size}"
    if data is None:
        return None
    expected = found.size if op.type == "LengthsTile" else int(found.sum())
    rows = data.shape[0] if data.shape else 0
    if expected == rows or (expected < rows and op.type in _AT_MOST):
        return None
    return f"the lengths are for {expected} rows, and the data has {rows}"


def step(_: OpView, operands: Sequence[Any]) -> str | None:
    """The step of a range."""
    return "Step size cannot be 0" if operands[0].size and not operands[0].any() else None


def _outside(ids: Any, limit: int | None, what: str, least: int = 0) -> str | None:
    """Return what is wrong with numbers of which one is below ``least``, or not below a limit."""
    if not ids.size or ids.dtype.kind not in "iu":
        return None
    lowest = int(ids.min())
    if lowest < least:
        return f"{what} {lowest} is negative" if least == 0 else f"{what} {lowest} is below {least}"
    if limit is not None and (highest := int(ids.max())) >= limit:
        return f"{what} {highest} is not below {limit}"
    return None


def _not_distributions(rows: Any) -> str | None:
    """Return what is wrong with rows of probabilities that do not add up to 1."""
    if not rows.size or rows.dtype.kind != "f":
        return None
    if not rows.min() >= 0:
        return f"a probability must not be negative, and {rows.min():g} is"
    error = float(np.abs(rows.sum(axis=1, dtype=np.float64) - 1).max())
    # Caffe2 adds up in float32: what that may add to its tolerance is allowed.
    if error < 1e-5 + rows.shape[1] * 2.0**-24:
        return None
    return f"the probabilities of each row must add up to 1, and one row is off by {error:g}"
