"""Maps from integers to integers: CreateMap, KeyValueToMap and MapToKeyValue."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import Array, HostObject
from caffe2_bridge.proto.caffe2_pb2 import TensorProto

family = HostFamily("maps")

# The element types of keys and values, with their names in C++.
INTEGERS: Final[Mapping[np.dtype[Any], str]] = {np.dtype(np.int32): "int", np.dtype(np.int64): "long int"}
_DTYPES: Final[Mapping[int, np.dtype[Any]]] = {
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.INT64: np.dtype(np.int64),
}


class HostMap(HostObject):
    """A map from integers to integers, in the order in which keys were added."""

    type_name = "std::unordered_map"

    def __init__(self, key_dtype: np.dtype[Any], value_dtype: np.dtype[Any]) -> None:
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        key, value = INTEGERS[key_dtype], INTEGERS[value_dtype]
        pair = f"std::pair<const {key}, {value}>"
        self.type_name = (
            f"std::unordered_map<{key}, {value}, std::hash<{key}>, std::equal_to<{key}>, std::allocator<{pair} > >"
        )
        self._entries: dict[int, int] = {}
        self._lock = threading.Lock()

    def add(self, entries: Iterable[tuple[int, int]]) -> None:
        """Add entries; keys that are there keep their values."""
        with self._lock:
            for key, value in entries:
                self._entries.setdefault(key, value)

    def replace(self, entries: Mapping[int, int]) -> None:
        """Have these entries, and no others."""
        with self._lock:
            self._entries = dict(entries)

    def entries(self) -> dict[int, int]:
        """Return a copy of the entries."""
        with self._lock:
            return dict(self._entries)

    def arrays(self) -> tuple[Array, Array]:
        """Return the keys and the values, [K] each."""
        entries = self.entries()
        keys = np.fromiter(entries, self.key_dtype, len(entries))
        return keys, np.fromiter(entries.values(), self.value_dtype, len(entries))


@family.runs("CreateMap")
def create_map(op: HostOp) -> None:
    """CreateMap(; key_dtype=INT32, value_dtype=INT32) -> map. A map of these types that is there stays as it is."""
    names = ("key_dtype", "value_dtype")
    key, value = (_DTYPES.get(op.args.integer(name, default=TensorProto.INT32)) for name in names)
    if key is None or value is None:
        raise op.error("key_dtype and value_dtype must be INT32 or INT64")
    op.set(0, _present(op, key, value) or HostMap(key, value))


@family.runs("KeyValueToMap")
def key_value_to_map(op: HostOp) -> None:
    """KeyValueToMap(keys, values) -> map. Entries are added to a map of these types that is there, as in Caffe2.

    Of equal keys the first counts.
    """
    keys, values = op.array(0), op.array(1)
    for name, array in zip(op.inputs, (keys, values), strict=True):
        if array.dtype not in INTEGERS:
            raise op.error(f"blob {name!r} must hold int32 or int64, not {array.dtype.name}")
    if keys.size != values.size:
        raise op.error(f"there are {keys.size} keys, and {values.size} values")
    made = _present(op, keys.dtype, values.dtype) or HostMap(keys.dtype, values.dtype)
    made.add(zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True))
    op.set(0, made)


@family.runs("MapToKeyValue")
def map_to_key_value(op: HostOp) -> None:
    """MapToKeyValue(map) -> keys, values, in the order in which the keys were added."""
    keys, values = op.object(0, HostMap).arrays()
    op.set(0, keys)
    op.set(1, values)


def _present(op: HostOp, key: np.dtype[Any], value: np.dtype[Any]) -> HostMap | None:
    """Return the map that the output holds, if it has these types."""
    found = op.find(op.outputs[0])
    if isinstance(found, HostMap) and (found.key_dtype, found.value_dtype) == (key, value):
        return found
    return None
