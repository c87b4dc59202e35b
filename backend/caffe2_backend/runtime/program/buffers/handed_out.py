"""Values that runs hand out, whose memory a later run writes again as soon as nothing else refers to them."""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.values import Array, DeviceTensor

# The bytes of an output up to which its memory is written again: each of the buffers takes as much.
SMALL_OUTPUT: Final = 1 << 18
_MAXIMUM: Final = 4


class HandedOut(NamedTuple):
    """A value, and onnxruntime's value of the same memory."""

    value: Array | DeviceTensor
    ort: Any

    def is_free(self, held: int = 0) -> bool:
        """Whether nothing refers to the value, or to a view of it, but this and ``held`` references of the caller."""
        return _references(self) <= _OWN_REFERENCES + held


def _references(memory: HandedOut) -> int:
    return sys.getrefcount(memory.value)


# What counts a value that nothing else refers to: this depends on the version of Python.
_OWN_REFERENCES: Final = _references(HandedOut(DeviceTensor.__new__(DeviceTensor), None))


class OutputBuffers:
    """Buffers on the host for one output of a session."""

    def __init__(self, session: Session, like: Array) -> None:
        self._session = session
        self._shape, self._dtype = like.shape, like.dtype
        self._buffers: list[HandedOut] = []

    def take(self) -> HandedOut | None:
        """Return a buffer to which nothing else refers; None if all are in use."""
        for buffer in self._buffers:
            if buffer.is_free():
                return buffer
        if len(self._buffers) == _MAXIMUM:
            return None
        ort, array = self._session.buffer(self._shape, self._dtype)
        self._buffers.append(HandedOut(array, ort))
        return self._buffers[-1]
