"""ReservoirSampling: a sample of all rows that were seen, of tensors or of packed records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.host.datasets.packed_records import PackedRecords, Record
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.objects.atomics import mutex_of
from caffe2_backend.runtime.host.objects.maps import HostMap
from caffe2_backend.runtime.values import Array, HostObject, Value, to_host

family = HostFamily("samples")

_MUTEX: Final = 3
_OBJECTS: Final = 4


@dataclass
class _Rows:
    """The rows of a tensor, or packed records."""

    rows: list[Any]
    like: Array | None

    @classmethod
    def of(cls, value: Value | None) -> _Rows:
        if isinstance(value, PackedRecords):
            return cls(list(value.records), None)
        if value is None or isinstance(value, HostObject | bytes):
            return cls([], None)
        array = to_host(value)
        return cls(list(array) if array.ndim else [], array)

    def value(self, data: _Rows) -> Any:
        """Return the rows as a blob's value, of the kind of ``data``."""
        if data.like is None:
            records: Sequence[Record] = self.rows
            return PackedRecords(records)
        return np.stack(self.rows) if self.rows else data.like[:0].copy()


def _data(op: HostOp, index: int, collected: _Rows) -> _Rows:
    """Return the rows of an input, which must be like those that were collected."""
    value = op.value(index)
    if not isinstance(value, PackedRecords) and op.array(index).ndim == 0:
        raise op.error(f"blob {op.inputs[index]!r} must have a dim at least")
    data = _Rows.of(value)
    own, others = (None if rows.like is None else list(rows.like.shape[1:]) for rows in (data, collected))
    if collected.rows and own != others:
        raise op.error(f"rows of shape {own} do not fit those of shape {others} that were collected")
    return data


def _limit(op: HostOp) -> int:
    limit = op.args.integer("num_to_collect", default=-1)
    if limit <= 0:
        raise op.error(f"num_to_collect must be positive, not {limit}")
    return limit


@family.runs("ReservoirSampling")
def reservoir_sampling(op: HostOp) -> None:
    """ReservoirSampling(reservoir, visited, data[, mutex, object_id, positions, objects]; num_to_collect) -> ....

    A uniform sample of all rows so far. With ``object_id`` a row whose object is in the reservoir is passed over;
    ``positions`` maps the objects to rows, of which ``objects`` holds the objects. Outputs: reservoir, visited,
    positions, objects.
    """
    limit = _limit(op)
    with mutex_of(op, _MUTEX):
        reservoir = _Rows.of(op.find(op.inputs[0]))
        visited = op.scalar(1) if reservoir.rows else 0
        data = _data(op, 2, reservoir)
        objects = _Objects(op, fresh=not reservoir.rows) if len(op.inputs) > _OBJECTS else None
        random = np.random.default_rng(op.frame.draw_seed())
        for index in range(len(data.rows)) if objects is None else objects.new(len(data.rows)):
            position = visited if visited < limit else int(random.integers(visited + 1))
            if position < limit:
                reservoir.rows[position : position + 1] = [data.rows[index]]
                if objects is not None:
                    objects.put(position, index)
            visited += 1
        op.set(0, reservoir.value(data))
        op.set(1, np.int64(visited))
        if objects is not None:
            objects.write()


class _Objects:
    """Which object each row of a reservoir is."""

    def __init__(self, op: HostOp, *, fresh: bool) -> None:
        self._op = op
        self._ids = op.array(_OBJECTS, np.int64)
        self._map = op.object(5, HostMap)
        self._positions = {} if fresh else self._map.entries()
        self._at: list[int] = [] if fresh else op.array(6, np.int64).tolist()

    def new(self, count: int) -> Iterator[int]:
        """Yield the indices of rows of new objects, the first of each."""
        if self._ids.shape != (count,):
            raise self._op.error(f"object_id must have {count} elements, not shape {list(self._ids.shape)}")
        seen = set(self._positions)
        for index, identity in enumerate(self._ids.tolist()):
            if identity not in seen:
                seen.add(identity)
                yield index

    def put(self, position: int, index: int) -> None:
        """Note that the reservoir's row is now this row of the data."""
        identity = int(self._ids[index])
        if position < len(self._at):
            self._positions.pop(self._at[position], None)
        self._at[position : position + 1] = [identity]
        self._positions[identity] = position

    def write(self) -> None:
        """Write the map and the objects."""
        self._map.replace(self._positions)
        if len(self._op.outputs) > 2:
            self._op.set(2, self._map)
        if len(self._op.outputs) > 3:
            self._op.set(3, np.array(self._at, np.int64))
