"""Results of a run, and blobs whose computation is deferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, final

from caffe2_backend.runtime.values import HostObject, Tensor, Value


@final
class DeferredBlob:
    """A blob that a run wrote but did not return: computed on first access, then kept.

    ``compute`` computes a blob of that run by name; it is asked each time if the blob ``keeps`` nothing. There are no
    other kinds, because runs tell it by its type.
    """

    __slots__ = ("_compute", "_computed", "_keeps")

    def __init__(self, compute: Callable[[str], Tensor], *, keeps: bool = True) -> None:
        self._compute = compute
        self._keeps = keeps
        self._computed: dict[str, Tensor] = {}

    def compute(self, name: str) -> Tensor:
        """Return the blob as the run left it. Raises RunError if it is not a tensor, or no operator wrote it."""
        value = self._computed.get(name)
        if value is None:
            value = self._compute(name)
            if self._keeps:
                self._computed[name] = value
        return value


class Blobs(Protocol):
    """Blobs by name: where a net reads its inputs."""

    def get(self, name: str, /) -> Value | DeferredBlob | None:
        """Return the blob's value, or how to compute it; None if it does not exist."""
        ...


_NO_DEFERRED: Final[Mapping[str, DeferredBlob]] = MappingProxyType({})
_NO_OBJECTS: Final[Mapping[str, HostObject | bytes]] = MappingProxyType({})


class Results(NamedTuple):
    """Results of a run: tensors, blobs that are computed on access, and values that are not tensors."""

    values: Mapping[str, Tensor]
    deferred: Mapping[str, DeferredBlob] = _NO_DEFERRED
    objects: Mapping[str, HostObject | bytes] = _NO_OBJECTS


def value_of(name: str, blobs: Blobs) -> Value | None:
    """Return the blob's value, computed if it was deferred; None if it does not exist."""
    value = blobs.get(name)
    return value.compute(name) if isinstance(value, DeferredBlob) else value
