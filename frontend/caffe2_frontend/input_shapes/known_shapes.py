"""Shapes of blobs as far as they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from caffe2_bridge.bounds import MAX_RANK
from caffe2_frontend.interop.types import Dim


class KnownShapes:
    """What is known of the shapes of a net's blobs: ranks, and sizes of dims. It only grows: what is known stays.

    Attributes:
        changed: the blobs of which more is known than when the set was emptied last.
    """

    def __init__(self, shapes: Mapping[str, tuple[Dim, ...]]) -> None:
        self._shapes: dict[str, tuple[Dim, ...]] = dict(shapes)
        self.changed: set[str] = set(shapes)

    def shape(self, name: str) -> tuple[Dim, ...] | None:
        """Return the shape of a blob; None if its rank is unknown."""
        return self._shapes.get(name)

    def set_shape(self, name: str, shape: Sequence[Dim]) -> None:
        """Add a shape to what is known of a blob; it is ignored if the blob has another rank, or no tensor has it."""
        known = self._shapes.get(name, (None,) * len(shape))
        if len(known) == len(shape) <= MAX_RANK:
            merged = tuple(
                new if old is None and isinstance(new, int) else old for old, new in zip(known, shape, strict=True)
            )
            if merged != self._shapes.get(name):
                self._store(name, merged)

    def _store(self, name: str, shape: tuple[Dim, ...]) -> None:
        """Replace the shape of a blob; operands that are left out have none."""
        if name:
            self._shapes[name] = shape
            self.changed.add(name)
