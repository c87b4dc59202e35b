"""Indices, which number keys from 1 on: IntIndexCreate, LongIndexCreate, StringIndexCreate, IndexGet and others."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import Array, HostObject

family = HostFamily("indices")

# The number of unknown keys.
UNKNOWN: Final = 0
_FIRST: Final = 1
_DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "IntIndexCreate": np.dtype(np.int32),
    "LongIndexCreate": np.dtype(np.int64),
    "StringIndexCreate": np.dtype(object),
}


class FullIndexError(Exception):
    """An index has no number left for another key."""


class HostIndex(HostObject):
    """Numbers of keys, counted from 1 in the order in which they were first looked up.

    Args:
        dtype: of the keys: int32, int64, or object for texts.
        max_elements: the first number that is not given to a key.
        is_frozen: whether new keys get no number.
    """

    type_name = "std::unique_ptr<caffe2::IndexBase>"

    def __init__(self, dtype: np.dtype[Any], max_elements: int, *, is_frozen: bool = False) -> None:
        self.dtype = dtype
        self.max_elements = max_elements
        self._frozen = is_frozen
        self._numbers: dict[Any, int] = {}
        self._lock = threading.Lock()

    def look_up(self, keys: Sequence[Any]) -> list[int]:
        """Return the numbers of keys. New keys get the next numbers; 0 if the index is frozen.

        Raises FullIndexError if no number is left for a key; the keys before it have theirs.
        """
        with self._lock:
            return [self._look_up(key) for key in keys]

    def _look_up(self, key: Any) -> int:
        number = self._numbers.get(key)
        if number is None:
            if self._frozen:
                return UNKNOWN
            number = len(self._numbers) + _FIRST
            if number >= self.max_elements:
                raise FullIndexError
            self._numbers[key] = number
        return number

    def load(self, keys: Sequence[Any]) -> None:
        """Replace all keys by others, which differ from each other."""
        with self._lock:
            self._numbers = {key: number for number, key in enumerate(keys, _FIRST)}

    def freeze(self) -> None:
        """Give no number to new keys from now on."""
        with self._lock:
            self._frozen = True

    @property
    def is_frozen(self) -> bool:
        """Whether new keys get no number."""
        return self._frozen

    @property
    def size(self) -> int:
        """The number of keys, and one more for those that are unknown."""
        return len(self._numbers) + 1

    def keys(self) -> Array:
        """Return the keys, in the order of their numbers."""
        with self._lock:
            found = list(self._numbers)
        keys = np.empty(len(found), self.dtype)
        keys[:] = found
        return keys


@family.runs(*_DTYPES)
def create(op: HostOp) -> None:
    """IntIndexCreate(; max_elements=2147483647) -> index. It has numbers for one key less than ``max_elements``."""
    op.set(0, HostIndex(_DTYPES[op.type], op.args.integer("max_elements", default=2**31 - 1)))


@family.runs("IndexGet")
def get(op: HostOp) -> None:
    """IndexGet(index, keys) -> numbers: int64, in the shape of the keys."""
    index, keys = op.object(0, HostIndex), _keys(op)
    try:
        numbers = index.look_up(keys.reshape(-1).tolist())
    except FullIndexError:
        raise op.error(f"index {op.inputs[0]!r} is full: max_elements is {index.max_elements}") from None
    op.set(0, np.array(numbers, np.int64).reshape(keys.shape))


@family.runs("IndexLoad")
def load(op: HostOp) -> None:
    """IndexLoad(index, keys; skip_first_entry=0) -> index: replace its keys."""
    index, keys = op.object(0, HostIndex), _keys(op).reshape(-1).tolist()
    if op.args.flag("skip_first_entry", default=False):
        keys = keys[1:]
    if len(keys) > index.max_elements:
        raise op.error(
            f"there are {len(keys)} keys, and max_elements of index {op.inputs[0]!r} is {index.max_elements}"
        )
    if len(set(keys)) != len(keys):
        raise op.error(f"blob {op.inputs[1]!r} holds a key twice")
    index.load(keys)
    op.set(0, index)


@family.runs("IndexStore")
def store(op: HostOp) -> None:
    """IndexStore(index) -> keys, in the order of their numbers."""
    op.set(0, op.object(0, HostIndex).keys())


@family.runs("IndexFreeze")
def freeze(op: HostOp) -> None:
    """IndexFreeze(index) -> index: keys that it does not have get the number 0 from now on."""
    index = op.object(0, HostIndex)
    index.freeze()
    op.set(0, index)


@family.runs("IndexSize")
def size(op: HostOp) -> None:
    """IndexSize(index) -> the number of keys plus one, an int64 without dims."""
    op.set(0, np.int64(op.object(0, HostIndex).size))


def _keys(op: HostOp) -> Array:
    """Return the second input, of the index's type."""
    index = op.object(0, HostIndex)
    return op.array(1, index.dtype)
