"""A frame that reads other blobs, and collects what is written."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from caffe2_backend.runtime.blobs.files import Files
from caffe2_backend.runtime.blobs.frame import NEVER, Frame, written
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results
from caffe2_backend.runtime.values import HostObject, Tensor, Value


class CollectingFrame:
    """Reads blobs, and collects what is written instead of writing it; locks and constants are those of a frame."""

    held: Final = 0
    writes: Final = NEVER

    def __init__(self, blobs: Blobs, frame: Frame) -> None:
        self._blobs = blobs
        self._frame = frame
        self._written: dict[str, Value | DeferredBlob] = {}

    @property
    def lock(self) -> threading.RLock:
        """That of the frame."""
        return self._frame.lock

    @property
    def constants(self) -> Mapping[str, Value]:
        """Those of the frame."""
        return self._frame.constants

    @property
    def files(self) -> Files:
        """That of the frame."""
        return self._frame.files

    @property
    def view(self) -> Blobs:
        """The blobs as a run reads them."""
        return self

    def draw_seed(self) -> int:
        """Return a seed for the random fills of one run."""
        return self._frame.draw_seed()

    def get(self, name: str, /) -> Value | DeferredBlob | None:
        """Return the blob's value, or how to compute it; None if it does not exist."""
        found = self._written.get(name)
        return self._blobs.get(name) if found is None else found

    def names(self) -> set[str]:
        """Return the names of the frame, and what was written."""
        return self._frame.names() | set(self._written)

    def own_names(self) -> set[str]:
        """Return the own names of the frame, and what was written."""
        return self._frame.own_names() | set(self._written)

    def clear(self, name: str, /) -> None:
        """Forget what was written; what the frame has cannot be removed here."""
        self._written.pop(name, None)

    def updating(self, names: tuple[str, ...], /) -> AbstractContextManager[object]:  # noqa: ARG002 - the protocol's
        """Do nothing: what is collected, only this frame updates."""
        return nullcontext()

    def commit(self, results: Results, *, constant: bool = False) -> None:  # noqa: ARG002 - the protocol's
        """Collect the results of a run."""
        self._written.update(written(results))

    @property
    def results(self) -> Results:
        """What was written."""
        values: dict[str, Tensor] = {}
        deferred: dict[str, DeferredBlob] = {}
        objects: dict[str, HostObject | bytes] = {}
        for name, value in self._written.items():
            if isinstance(value, DeferredBlob):
                deferred[name] = value
            elif isinstance(value, HostObject | bytes):
                objects[name] = value
            else:
                values[name] = value
        return Results(values, deferred, objects)
