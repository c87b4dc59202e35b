"""Rows that operators skip, counted over the runs of a net: Caffe2 raises when they are too many.

SparseToDenseMask leaves out negative indices, and GatherRangesToDense ranges that do not have their length. Counted are
operands that the net does not compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.values import Array, Value
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.views import ArgumentError, OpView

# Counts what a run skips of some operands, and returns what is wrong with the sum; None if nothing is.
_Count = Callable[..., "str | None"]


class SkippedRows:
    """The counts of some operators; false if none of them counts.

    Args:
        ops: operators of a net.
        location: of the net.
    """

    def __init__(self, ops: Sequence[OpView], location: Location) -> None:
        self._location = location
        self._counts: list[tuple[OpView, tuple[str, ...], _Count]] = []
        written: set[str] = set()
        for op in ops:
            if op.type in _KINDS and not op.proto.domain:
                kind, indices = _KINDS[op.type]
                names = tuple(op.inputs[i] for i in indices if i < len(op.inputs))
                with suppress(ArgumentError):  # the conversion reports it
                    if written.isdisjoint(names):
                        self._counts.append((op, names, kind(op)))
            written.update(op.outputs)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def restart(self) -> None:
        """Begin to count anew."""
        self._counts = [(op, names, _KINDS[op.type][0](op)) for op, names, _ in self._counts]

    def count(self, given: Mapping[str, Value]) -> None:
        """Count what a run with these inputs skips. Raises RunError if it is too much together with earlier runs."""
        for op, names, count in self._counts:
            operands = [value for name in names if isinstance(value := given.get(name), np.ndarray)]
            if len(operands) == len(names) and (wrong := count(*operands)) is not None:
                raise Origin(self._location).failure(op, wrong)


class _RowsWithInvalidIndices:
    """SparseToDenseMask: rows with an index that is negative, or the largest of its type."""

    def __init__(self, op: OpView) -> None:
        self._limit = op.args.integer("max_skipped_indices", default=50)
        self._count = 0

    def __call__(self, ids: Array, lengths: Array | None = None) -> str | None:
        """``ids`` int32 or int64 [N], ``lengths`` int32 [rows]; one row without them."""
        if ids.dtype.kind != "i" or ids.ndim != 1:
            return None  # the conversion reports it
        invalid = (ids < 0) | (ids == np.iinfo(ids.dtype).max)
        if lengths is None:
            self._count += int(invalid.any())
        elif invalid.any():
            before = np.concatenate([[0], np.cumsum(invalid)])
            ends = np.clip(np.cumsum(lengths), 0, len(ids))
            starts = np.clip(ends - lengths, 0, len(ids))
            self._count += int(np.count_nonzero(before[ends] > before[starts]))
        if self._count < self._limit or (lengths is not None and not lengths.size):
            return None
        return (
            f"too many rows with invalid indices were skipped: "
            f"{self._count}, which is not below max_skipped_indices ({self._limit})"
        )


class _MismatchedRanges:
    """GatherRangesToDense: ranges of other lengths than the argument says, and empty ones, which it fills with 0."""

    def __init__(self, op: OpView) -> None:
        self._lengths = np.array(op.args.integers("lengths", default=()))
        self._least = op.args.integer("min_observation", default=10000)
        self._limits = {
            "range length mismatch": op.args.number("max_mismatched_ratio", default=0.01),
            "empty ranges": op.args.number("max_empty_ratio", default=1.0),
        }
        self._total = 0
        self._counts = {what: np.zeros(len(self._lengths), np.int64) for what in self._limits}

    def __call__(self, ranges: Array) -> str | None:
        """``ranges`` int32 or int64 [rows, number of lengths, 2]: the start and length of each."""
        if ranges.shape[1:] != (len(self._lengths), 2):
            return None  # checked as an operand
        sizes = ranges[..., 1]
        self._total += len(sizes)
        self._counts["range length mismatch"] += np.count_nonzero((sizes != self._lengths) & (sizes != 0), axis=0)
        self._counts["empty ranges"] += np.count_nonzero(sizes == 0, axis=0)
        for j in range(len(self._lengths)):
            for what, limit in self._limits.items():
                count = int(self._counts[what][j])
                # Caffe2 computes in float32.
                if limit < 1 and np.float32(max(self._total, self._least)) * np.float32(limit) < np.float32(count):
                    return f"the ratio of {what} for feature {j}, {count} of {self._total}, exceeds {limit:g}"
        return None


# By operator type: what counts, and the indices of the operands that it looks at.
_KINDS: Final[Mapping[str, tuple[Callable[[OpView], _Count], tuple[int, ...]]]] = {
    "GatherRangesToDense": (_MismatchedRanges, (1,)),
    "SparseToDenseMask": (_RowsWithInvalidIndices, (0, 3)),
}
