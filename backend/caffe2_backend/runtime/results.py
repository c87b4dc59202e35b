"""What a run gives, and where the next one finds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from caffe2_backend.runtime.values import Opaque, Tensor, Value


class Later:
    """A blob of a run that did not give it: computed when it is asked for; what was found is kept."""

    __slots__ = ("_compute", "_found")

    def __init__(self, compute: Callable[[str], Tensor]) -> None:
        self._compute = compute
        self._found: dict[str, Tensor] = {}

    def compute(self, name: str) -> Tensor:
        """The blob as the run left it. Raises RunError where it is no tensor, or no operator wrote it."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._compute(name)
        return found


class Blobs(Protocol):
    """Where a net finds its inputs: a workspace's blobs, by name."""

    def get(self, name: str, /) -> Value | Later | None:
        """The blob's value, or how to compute it; None where there is no such blob."""
        ...


@dataclass(frozen=True)
class Results:
    """What a run gives: values, blobs that are computed when they are asked for, and objects."""

    values: Mapping[str, Tensor]
    later: Mapping[str, Later]
    objects: Mapping[str, Opaque]


def value_of(name: str, blobs: Blobs) -> Value | None:
    """The blob's value, computed where that was put off; None where there is no such blob."""
    value = blobs.get(name)
    return value.compute(name) if isinstance(value, Later) else value
