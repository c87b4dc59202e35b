"""The blobs of a workspace, which may see those of a parent."""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Final

import numpy as np

from caffe2_backend.runtime.blobs.burst import Burst
from caffe2_backend.runtime.blobs.files import Files
from caffe2_backend.runtime.blobs.frame import Count, written
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results
from caffe2_backend.runtime.blobs.update_locks import UpdateLocks, together
from caffe2_backend.runtime.values import Value
from caffe2_bridge.diagnostics import OptionError

# References to a blob's value during a run: of the store, and of the run's inputs.
_HELD: Final = 2


class BlobStore:
    """The blobs of a workspace.

    A store with a parent finds the blobs of the parent, too. As in Caffe2, a blob that exists in the parent and not
    here is written there; a new one is created here.

    Attributes:
        blobs: own values by name, some of them deferred.
        created: names of own blobs that exist even without a value.
        lock: held while blobs are read or written; that of the parent, if any.
        held, writes: see Frame.
        constants, files: see Frame.
    """

    held: Final = _HELD

    def __init__(self, seed: int | None, parent: BlobStore | None = None) -> None:
        self.blobs: dict[str, Value | DeferredBlob] = {}
        self.created: set[str] = set()
        self.parent = parent
        self.files: Files = Files() if parent is None else copy(parent.files)
        self._own_constants: dict[str, Value] = {}
        self._updates = UpdateLocks()
        self._updating: dict[tuple[str, ...], tuple[list[BlobStore], AbstractContextManager[object]]] = {}
        if parent is None:
            self.lock = threading.RLock()
            self.constants: Mapping[str, Value] = self._own_constants
            if seed is not None and seed < 0:
                raise OptionError(f"seed must not be negative, and is {seed}")
            self._random = np.random.default_rng(seed)
            self.writes = Count()
        else:
            self.lock = parent.lock
            self.constants = ChainMap(self._own_constants, parent.constants)  # type: ignore[arg-type] # only read
            self._random = parent._random  # noqa: SLF001 - the same class
            self.writes = parent.writes

    @property
    def view(self) -> Blobs:
        """The blobs as a run reads them: a dictionary, which is faster, where there is no parent."""
        return self.blobs if self.parent is None else self

    def get(self, name: str, /) -> Value | DeferredBlob | None:
        """Return the blob's value, or how to compute it; None if it does not exist or has no value."""
        store = self._owner(name)
        return store.blobs.get(name)

    def has(self, name: str) -> bool:
        """Whether a blob exists, with or without a value, here or in a parent."""
        return self._is_own(name) or (self.parent is not None and self.parent.has(name))

    def names(self) -> set[str]:
        """Return the names of all blobs, those of parents included."""
        with self.lock:
            own = self.created.union(self.blobs)
            return own if self.parent is None else own | self.parent.names()

    def own_names(self) -> set[str]:
        """Return the names of the blobs of this store alone."""
        with self.lock:
            return self.created.union(self.blobs)

    def create(self, name: str) -> None:
        """Create a blob without a value; one that exists keeps its value."""
        with self.lock:
            if not self.has(name):
                self.created.add(name)

    def set(self, name: str, value: Value | DeferredBlob) -> None:
        """Set a blob."""
        with self.lock:
            self.writes.value += 1
            self._owner(name).blobs[name] = value

    def burst(self, times: int, go_on: Callable[[], bool] = lambda: True) -> Burst:
        """Return a burst of steps, which ends when a blob of this store, its parent or their children is written.

        ``go_on`` is asked before each further step, after all else.
        """
        writes, before = self.writes, self.writes.value
        return Burst(times, lambda: writes.value == before and go_on())

    def clear(self, name: str, /) -> None:
        """Leave a blob without a value; it exists afterwards."""
        with self.lock:
            owner = self._owner(name)
            self.writes.value += 1
            owner.blobs.pop(name, None)
            owner.created.add(name)

    def updating(self, names: tuple[str, ...], /) -> AbstractContextManager[object]:
        """Let nobody else update these blobs within the block; others may still read and overwrite them."""
        known = self._updating.get(names)
        if known is not None and (self.parent is None or known[0] == list(map(self._owner, names))):
            return known[1]
        with self.lock:
            owners = list(map(self._owner, names))
            locks = {owner: owner._updates.of(n for n, own in zip(names, owners, strict=True) if own is owner)  # noqa: SLF001 - the same class
                     for owner in owners}  # fmt: skip
            known = owners, together(set().union(*locks.values()))
            self._updating[names] = known
            return known[1]

    def draw_seed(self) -> int:
        """Return a seed for the random fills of one run."""
        with self.lock:
            return int(self._random.integers(2**62))

    def commit(self, results: Results, *, constant: bool = False) -> None:
        """Write the results of a run; ``constant`` if an init net made them."""
        with self.lock:
            self.writes.value += 1
            if self.parent is None:
                if results.deferred:
                    self.blobs.update(results.deferred)
                if results.objects:
                    self.blobs.update(results.objects)
                self.blobs.update(results.values)
            else:
                for name, value in written(results):
                    self._owner(name).blobs[name] = value
            if constant:
                for name, tensor in results.values.items():
                    self._owner(name)._own_constants[name] = tensor  # noqa: SLF001 - the same class

    def remove(self, name: str) -> bool:
        """Remove a blob of this store; return whether it existed."""
        with self.lock:
            self.writes.value += 1
            existed = self._is_own(name)
            self.created.discard(name)
            self._own_constants.pop(name, None)
            self.blobs.pop(name, None)
            return existed

    def reset(self) -> None:
        """Remove all blobs of this store, and see Files.clear."""
        self.files.clear()
        with self.lock:
            self.writes.value += 1
            self.blobs.clear()
            self._own_constants.clear()
            self.created.clear()

    def _is_own(self, name: str) -> bool:
        return name in self.blobs or name in self.created

    def _owner(self, name: str) -> BlobStore:
        """Return the store that has a blob, or that creates it."""
        store: BlobStore | None = self
        while store is not None:
            if name in store.blobs or name in store.created:
                return store
            store = store.parent
        return self
