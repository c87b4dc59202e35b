"""Conversions that nets of one structure share, and with them the sessions of their models.

A program keeps its buffers and its constants to itself: what is shared here is never written. Programs of random
operators share nothing, since a session's generator of random numbers is its own.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from caffe2_backend.runtime.program.conversion import Lowered
from caffe2_backend.runtime.program.structure import Structure
from caffe2_bridge.diagnostics.log import log_new_diagnostics

# The bytes that the models of all cached conversions take, in about; one node takes about so many.
_BYTES: Final = 1 << 26
_BYTES_OF_A_NODE: Final = 1 << 14
_MOST_FAILURES: Final = 1024


@dataclasses.dataclass(frozen=True)
class _Entry:
    structure: Structure
    lowered: Lowered
    size: int


class ConversionCache:
    """Conversions by the structures of nets, the most recently used ones; several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._size = 0
        self._converting: dict[bytes, threading.Lock] = {}
        self._need_sizes: OrderedDict[bytes, None] = OrderedDict()

    def get(self, structure: Structure, convert: Callable[[], Lowered]) -> Lowered:
        """Return the conversion of a net of this structure, with the names of this net. Raises what ``convert`` raises.

        Threads that ask for one structure at the same time convert it once.
        """
        found = self._found(structure)
        if found is not None:
            return found
        with self._lock:
            converting = self._converting.setdefault(structure.digest, threading.Lock())
        with converting:
            found = self._found(structure)
            if found is not None:
                return found
            try:
                lowered = convert()
            finally:
                with self._lock:
                    self._converting.pop(structure.digest, None)
            self._add(structure, lowered)
            return lowered

    def needs_sizes(self, structure: Structure) -> bool:
        """Whether a conversion of this structure failed for want of the sizes of its inputs."""
        return structure.digest in self._need_sizes

    def note_needed_sizes(self, structure: Structure) -> None:
        """Note that the conversion needs the sizes of its inputs."""
        with self._lock:
            self._need_sizes[structure.digest] = None
            if len(self._need_sizes) > _MOST_FAILURES:
                self._need_sizes.popitem(last=False)

    def clear(self) -> None:
        """Forget all conversions."""
        with self._lock:
            self._entries.clear()
            self._need_sizes.clear()
            self._size = 0

    def _found(self, structure: Structure) -> Lowered | None:
        with self._lock:
            entry = self._entries.get(structure.digest)
            if entry is None:
                return None
            self._entries.move_to_end(structure.digest)
        if structure.has_names_of(entry.structure):
            log_new_diagnostics(entry.lowered.findings)
            return entry.lowered
        # Diagnostics name blobs and the net.
        return None if entry.lowered.findings else _renamed(entry, structure)

    def _add(self, structure: Structure, lowered: Lowered) -> None:
        if lowered.random:
            return
        entry = _Entry(structure, lowered, _size(lowered))
        with self._lock:
            replaced = self._entries.pop(structure.digest, None)
            self._entries[structure.digest] = entry
            self._size += entry.size - (replaced.size if replaced else 0)
            while self._size > _BYTES and self._entries:
                self._size -= self._entries.popitem(last=False)[1].size


CONVERSIONS: Final = ConversionCache()


def _renamed(entry: _Entry, structure: Structure) -> Lowered:
    lowered = entry.lowered
    names = dict(zip(entry.structure.blobs, structure.blobs, strict=True))
    return dataclasses.replace(
        lowered,
        outputs=tuple(names[name] for name in lowered.outputs),
        quantized={names[name]: how for name, how in lowered.quantized.items()},
        names=names,
    )


def _size(lowered: Lowered) -> int:
    weights = [value.const_value for graph in lowered.model.graphs() for value in graph.initializers.values()]
    nodes = sum(len(graph) for graph in lowered.model.graphs())
    return nodes * _BYTES_OF_A_NODE + sum(tensor.nbytes for tensor in weights if tensor is not None)
