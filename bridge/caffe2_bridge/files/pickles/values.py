"""The NumPy arrays of a pickle, and the few functions that a pickle may name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from caffe2_bridge import wire
from caffe2_bridge.bounds import is_possible_shape
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.parameters import Array

# What dtype() accepts besides: structures, aliases, and counts that ask for any amount of memory.
_DTYPE: Final = re.compile(r"[<>=|]?(?:[biufc](?:1|2|4|8|16)|[?bBhHiIlLqQefdgFD])")
_ORDERS: Final[Mapping[str, Literal["<", ">", "="]]] = {"<": "<", ">": ">", "=": "=", "|": "="}
_LATIN: Final = frozenset({"latin1", "latin-1", "iso-8859-1"})


@dataclass(frozen=True, slots=True)
class Payload:
    """Many bytes, where they lie in the file; ``is_text`` for UTF-8 of characters that stand for a byte each."""

    span: wire.Span
    is_text: bool = False

    def load(self) -> bytes | memoryview:
        """Return the bytes. Raises NetFormatError for text of other characters."""
        if not self.is_text:
            return self.span.view
        return encode_latin(decode(self.span.view))


class PickledArray:
    """An array that is decoded on demand; without a state, which follows in a pickle, it has no data."""

    __slots__ = ("data", "dtype", "is_fortran", "shape")

    def __init__(self) -> None:
        self.dtype: np.dtype[Any] = np.dtype(np.uint8)
        self.shape: tuple[int, ...] = (0,)
        self.data: bytes | Payload = b""
        self.is_fortran = False

    def set(self, dtype: object, shape: object, data: object, *, is_fortran: bool = False) -> PickledArray:
        """Set the state. Raises NetFormatError if its parts do not fit each other."""
        if not isinstance(dtype, PickledDtype):
            raise NetFormatError("the pickle has an array of an invalid dtype")
        if not (isinstance(shape, tuple) and all(type(dim) is int for dim in shape) and is_possible_shape(shape)):
            raise NetFormatError("the pickle has an array of an invalid shape")
        if not isinstance(data, bytes | Payload):
            raise NetFormatError("the pickle has an array whose data is not bytes")
        self.dtype, self.shape, self.data, self.is_fortran = dtype.dtype, shape, data, is_fortran
        if isinstance(data, bytes) or not data.is_text:
            self._require(len(data) if isinstance(data, bytes) else len(data.span))
        return self

    def set_state(self, state: object) -> None:
        """Set the state that a pickle has: version, which older ones lack, shape, dtype, order and data."""
        if not isinstance(state, tuple) or len(state) not in {4, 5}:
            raise NetFormatError("the pickle has an array of an invalid state")
        shape, dtype, is_fortran, data = state[-4:]
        self.set(dtype, shape, data, is_fortran=is_fortran is True or is_fortran == 1)

    def _require(self, stored: int) -> None:
        if stored != math.prod(self.shape) * self.dtype.itemsize:
            raise NetFormatError(
                f"the pickle has an array of {stored:,} bytes for shape {list(self.shape)} of {self.dtype.name}"
            )

    def load(self) -> Array:
        """Decode the values into a new array, in C order and of native bytes. Raises NetFormatError."""
        data = self.data.load() if isinstance(self.data, Payload) else self.data
        self._require(len(data))
        stored = np.frombuffer(data, self.dtype).reshape(self.shape, order="F" if self.is_fortran else "C")
        values = np.array(stored, self.dtype.newbyteorder("="), order="C")
        if isinstance(self.data, Payload):
            self.data.span.release()
        return values


class PickledDtype:
    """A dtype before its state, which has its byte order, is known."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def set_state(self, state: object) -> None:
        """Set the state: version, byte order, and of structures their parts. Raises NetFormatError for those."""
        if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
            raise NetFormatError("the pickle has a dtype of several parts, which is not read")
        order = _text(state[1])
        if order not in _ORDERS:
            raise NetFormatError("the pickle has a dtype of an invalid byte order")
        self.dtype = self.dtype.newbyteorder(_ORDERS[order])


@dataclass(frozen=True, slots=True)
class Global:
    """A function or class that the pickle names."""

    name: str


def decode(data: bytes | memoryview) -> str:
    """Decode UTF-8. Raises NetFormatError."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise NetFormatError("the pickle has text that is not UTF-8") from None


def encode_latin(text: str) -> bytes:
    """Encode characters as a byte each. Raises NetFormatError."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise NetFormatError("the pickle has bytes, as text, with characters beyond latin-1") from None


def _reconstruct(kind: object, *_: object) -> PickledArray:
    if kind != Global("numpy.ndarray"):
        raise NetFormatError("the pickle reconstructs something else than a NumPy array")
    return PickledArray()


def _scalar(dtype: object, data: object) -> PickledArray:
    return PickledArray().set(dtype, (), data)


def _frombuffer(data: object, dtype: object, shape: object, order: object = "C") -> PickledArray:
    return PickledArray().set(dtype, shape, data, is_fortran=order == "F")


def _dtype(name: object, *_: object) -> PickledDtype:
    text = _text(name)
    if not _DTYPE.fullmatch(text):
        raise NetFormatError(f"the pickle has an array of dtype {text[:40]!r}, which is not read: numbers are")
    try:
        return PickledDtype(np.dtype(text))
    except TypeError:
        raise NetFormatError(f"the pickle has an array of an unknown dtype {text!r}") from None


def _encode(text: object, encoding: object = "latin1") -> bytes | Payload:
    """Undo how Python 3 writes bytes in old protocols: as text."""
    if _text(encoding) not in _LATIN:
        raise NetFormatError("the pickle has bytes in an encoding other than latin1")
    if isinstance(text, Payload):
        return Payload(text.span, is_text=True)
    if not isinstance(text, str):
        raise NetFormatError("the pickle encodes something else than text")
    return encode_latin(text)


def _no_bytes() -> bytes:
    return b""


def _ordered(pairs: object = ()) -> dict[Any, Any]:
    items = pairs if isinstance(pairs, list | tuple) else [None]
    made: dict[Any, Any] = {}
    for item in items:
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise NetFormatError("the pickle has an OrderedDict of something else than pairs")
        made[key_of(item[0])] = item[1]
    return made


def key_of(value: object) -> object:
    """Return a value that may be the key of a dict. Raises NetFormatError for others: to hash them may recurse."""
    if type(value) not in {str, bytes, int, float, bool, type(None)}:
        raise NetFormatError("the pickle has a dict with a key that is neither a short text nor a number")
    return value


def _text(value: object) -> str:
    """Return text, which Python 2 wrote as bytes."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if not isinstance(value, str):
        raise NetFormatError("the pickle has something else where a text is expected")
    return value


def _in_numpy(module: str, name: str, function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return a function under its names in NumPy 1 and 2."""
    return {f"numpy.{core}.{module}.{name}": function for core in ("core", "_core")}


# Everything that a pickle may name, and what is called in its place.
GLOBALS: Final[Mapping[str, Callable[..., Any] | None]] = MappingProxyType({
    **_in_numpy("multiarray", "_reconstruct", _reconstruct),
    **_in_numpy("multiarray", "scalar", _scalar),
    **_in_numpy("numeric", "_frombuffer", _frombuffer),
    "numpy.dtype": _dtype,
    "numpy.ndarray": None,  # an argument of _reconstruct
    "_codecs.encode": _encode,
    "__builtin__.bytes": _no_bytes,
    "builtins.bytes": _no_bytes,
    "collections.OrderedDict": _ordered,
})  # fmt: skip
