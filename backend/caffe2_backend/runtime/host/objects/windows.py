"""LastNWindowCollector: the last rows that were seen, in a ring."""

from __future__ import annotations

from typing import Final

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.objects.atomics import mutex_of
from caffe2_backend.runtime.values import Array, HostObject, to_host

family = HostFamily("windows")

_RING, _NEXT, _ROWS, _MUTEX, _SEEN = range(5)
_SEEN_OUTPUT: Final = 2


@family.runs("LastNWindowCollector")
def collect_last_rows(op: HostOp) -> None:
    """LastNWindowCollector(ring, next, rows, [mutex, seen]; num_to_collect) -> ring, next, [seen].

    The ring holds the last ``num_to_collect`` rows, fewer at first. ``next``, an int32 without dims, is the position of
    the next row, where the oldest one is once the ring is full; ``seen``, an int64, counts all rows.
    """
    size = op.args.integer("num_to_collect")
    if size < 1:
        raise op.error("num_to_collect must be positive")
    with mutex_of(op, _MUTEX):
        rows = op.array(_ROWS)
        if not rows.ndim:
            raise op.error(f"blob {op.inputs[_ROWS]!r} must have rows")
        if len(op.outputs) > _SEEN_OUTPUT:
            op.set(_SEEN_OUTPUT, op.array(_SEEN, np.int64) + len(rows))
        ring = _ring(op, rows)
        start = int(op.scalar(_NEXT, np.int32)) if len(ring) else 0
        if len(rows) > size:
            op.set(0, rows[-size:].copy())
            op.set(1, np.int32(0))
        elif len(rows) or not len(ring):
            if not 0 <= start < max(min(size, len(ring) + len(rows)), 1):
                raise op.error(f"blob {op.inputs[_NEXT]!r} holds {start}, which is not a position in the ring")
            op.set(0, _written(ring, rows, start, size))
            op.set(1, np.int32((start + len(rows)) % size))


def _ring(op: HostOp, rows: Array) -> Array:
    """Return the ring so far: no rows where the blob has no value or no elements."""
    value = op.find(op.inputs[_RING])
    found = None if value is None or isinstance(value, bytes | HostObject) else to_host(value)
    if found is None or not found.size:
        return rows[:0]
    if found.shape[1:] != rows.shape[1:] or found.dtype != rows.dtype:
        raise op.error(f"the rows of {op.inputs[_ROWS]!r} and of {op.inputs[_RING]!r} must be equal in shape and type")
    return found


def _written(ring: Array, rows: Array, start: int, size: int) -> Array:
    """Return a copy of the ring with rows written from a position on, around its end."""
    count = min(size, len(ring) + len(rows))
    result = np.empty((count, *rows.shape[1:]), rows.dtype)
    result[: len(ring)] = ring
    result[(start + np.arange(len(rows))) % size] = rows
    return result
