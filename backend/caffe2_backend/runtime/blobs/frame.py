"""Frames: where a net reads and writes blobs, a workspace or the inside of an operator with bodies."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

from caffe2_backend.runtime.blobs.files import Files
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results
from caffe2_backend.runtime.values import HostObject, Tensor, Value


class Count:
    """A number that several share."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


NEVER: Final = Count()  # of a frame in which only one thread writes


class Frame(Protocol):
    """Blobs by name, to read and to write."""

    @property
    def lock(self) -> threading.RLock:
        """Held while blobs are read or written, never while a run may wait for another one."""
        ...

    @property
    def held(self) -> int:
        """How many references there are to a blob's value during a run, those of the frame and of the run's inputs.

        0 where values must not be overwritten.
        """
        ...

    @property
    def writes(self) -> Count:
        """Another number after each write of a blob; always the same where only one thread writes."""
        ...

    @property
    def constants(self) -> Mapping[str, Value]:
        """Blobs that init nets made: nets take them as constants while they do not change."""
        ...

    @property
    def files(self) -> Files:
        """Where the paths that operators name lie."""
        ...

    @property
    def view(self) -> Blobs:
        """The blobs as a run reads them: finds what :meth:`get` does, maybe faster."""
        ...

    def get(self, name: str, /) -> Value | DeferredBlob | None:
        """Return the blob's value, or how to compute it; None if it does not exist or has no value."""
        ...

    def commit(self, results: Results, *, constant: bool = False) -> None:
        """Write the results of a run; ``constant`` if an init net made them."""
        ...

    def clear(self, name: str, /) -> None:
        """Leave a blob without a value."""
        ...

    def names(self) -> set[str]:
        """Return the names of all blobs that are found here."""
        ...

    def own_names(self) -> set[str]:
        """Return the names of the blobs that are here, and not around it."""
        ...

    def updating(self, names: tuple[str, ...], /) -> AbstractContextManager[object]:
        """Let nobody else update these blobs within the block; others may still read and overwrite them.

        The block must not wait for another run, and is not entered while ``lock`` is held.
        """
        ...

    def draw_seed(self) -> int:
        """Return a seed for the random fills of one run."""
        ...


def written(results: Results) -> Iterator[tuple[str, Value | DeferredBlob]]:
    """Yield the blobs of results, those that were computed last."""
    yield from results.deferred.items()
    yield from results.objects.items()
    yield from results.values.items()


def results_of(name: str, value: Value) -> Results:
    """Return results that hold one blob."""
    if isinstance(value, HostObject | bytes):
        return Results({}, objects={name: value})
    tensor: Tensor = value
    return Results({name: tensor})
