"""Inputs of steps that are not states: small ones in buffers, which stay bound from run to run."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.sessions.session import Binding, Session
from caffe2_backend.runtime.values import Array, DeviceTensor

# The bytes of a value up to which it is copied: binding one takes as long.
COPIED: Final = 1 << 16


_NO_MEMORY: Final = np.empty(0)


class _Buffer:
    """The memory of one feed: onnxruntime's value, and an array that shares it; ``ort`` is None while it has none."""

    __slots__ = ("array", "blob", "dtype", "name", "ort", "shape")

    def __init__(self, name: str, blob: str) -> None:
        self.name, self.blob = name, blob
        self.ort: Any = None
        self.array: Array = _NO_MEMORY
        self.shape: tuple[int, ...] | None = None
        self.dtype: np.dtype[Any] | None = None


class Feeds:
    """The feeds of a session.

    Attributes:
        direct: those of this run that are not copied, by input.
    """

    def __init__(self, session: Session, blobs: Mapping[str, str], limit: int | None = None) -> None:
        """Make no buffer yet.

        Args:
            session: the session.
            blobs: of its inputs that are fed, by input.
            limit: the bytes of an array on the host up to which it is copied into a buffer.
        """
        self._session = session
        self._buffers = [_Buffer(name, blob) for name, blob in blobs.items()]
        self._limit = COPIED if limit is None else limit
        self.direct: dict[str, Array | DeviceTensor] = {}

    def set(self, given: Mapping[str, Any]) -> bool:
        """Take the feeds of a run; return whether bindings of earlier runs refer to buffers that were replaced."""
        replaced = False
        for buffer in self._buffers:
            value = given[buffer.blob]
            if type(value) is np.ndarray and value.shape == buffer.shape and value.dtype == buffer.dtype:
                buffer.array[...] = value  # as np.copyto, in less time
            else:
                replaced |= self._place(buffer, value)
        return replaced

    def _place(self, buffer: _Buffer, value: Array | DeviceTensor) -> bool:
        """Copy a feed into new memory, if it is to be copied; return whether bindings refer to other memory."""
        before, buffer.ort, buffer.array, buffer.shape = buffer.ort, None, _NO_MEMORY, None
        if not isinstance(value, np.ndarray) or value.nbytes > self._limit:
            self.direct[buffer.name] = value
            return before is not None
        self.direct.pop(buffer.name, None)
        buffer.ort, buffer.array = self._session.buffer(value.shape, value.dtype)
        buffer.array[...] = value
        buffer.shape, buffer.dtype = value.shape, value.dtype
        return True

    def bind(self, binding: Binding, inputs: Container[str]) -> None:
        """Bind the buffers of those inputs, where they are not bound yet."""
        for buffer in self._buffers:
            if buffer.ort is not None and buffer.name in inputs:
                binding.bind_input_value(buffer.name, buffer.ort)

    def bind_direct(self, binding: Binding) -> None:
        """Bind the feeds of this run that have no buffer."""
        for name, value in self.direct.items():
            binding.bind_input(name, value)

    def addresses(self) -> Iterator[int]:
        """Yield where the feeds are that are on the host."""
        for buffer in self._buffers:
            if buffer.ort is not None:
                yield buffer.ort.data_ptr()
        for value in self.direct.values():
            if isinstance(value, np.ndarray):
                yield value.ctypes.data
