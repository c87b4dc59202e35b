"""Inputs of steps that are not states: small ones in buffers, which stay bound from run to run."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.sessions.session import Binding, Session
from caffe2_backend.runtime.values import Array, DeviceTensor

# The bytes of a value up to which it is copied: binding one takes as long.
COPIED: Final = 1 << 16


class Feeds:
    """The feeds of a session.

    Args:
        session: the session.
        blobs: of its inputs that are fed, by input.
        limit: the bytes of an array on the host up to which it is copied into a buffer.
    """

    def __init__(self, session: Session, blobs: Mapping[str, str], limit: int | None = None) -> None:
        self._session = session
        self._blobs = dict(blobs)
        self._limit = COPIED if limit is None else limit
        self._buffers: dict[str, tuple[Any, Array]] = {}
        self._direct: dict[str, Array | DeviceTensor] = {}  # those of this run that are not copied

    def set(self, given: Mapping[str, Any]) -> bool:
        """Take the feeds of a run; return whether bindings of earlier runs refer to buffers that were replaced."""
        replaced = False
        for name, blob in self._blobs.items():
            value = given[blob]
            found = self._buffers.get(name)
            if found is None:
                replaced |= self._place(name, value)
                continue
            buffer = found[1]
            if type(value) is np.ndarray and value.shape == buffer.shape and value.dtype == buffer.dtype:
                buffer[...] = value  # as np.copyto, in less time
            else:
                replaced |= self._place(name, value)
        return replaced

    def _place(self, name: str, value: Array | DeviceTensor) -> bool:
        """Copy a feed into a new buffer, if it is to be copied; return whether bindings refer to an old one."""
        if isinstance(value, np.ndarray) and value.nbytes <= self._limit:
            self._direct.pop(name, None)
            self._buffers[name] = self._session.buffer(value.shape, value.dtype)
            self._buffers[name][1][...] = value
            return True
        self._direct[name] = value
        return self._buffers.pop(name, None) is not None

    def release(self) -> None:
        """Refer to no feed of the last run any more."""
        self._direct.clear()

    def bind(self, binding: Binding, inputs: Container[str]) -> None:
        """Bind the buffers of those inputs, where they are not bound yet."""
        for name, (ort, _) in self._buffers.items():
            if name in inputs:
                binding.bind_input_value(name, ort)

    def bind_direct(self, binding: Binding) -> None:
        """Bind the feeds of this run that have no buffer."""
        for name, value in self._direct.items():
            binding.bind_input(name, value)

    def addresses(self) -> Iterator[int]:
        """Where the feeds are that are on the host."""
        for ort, _ in self._buffers.values():
            yield ort.data_ptr()
        for value in self._direct.values():
            if isinstance(value, np.ndarray):
                yield value.ctypes.data
