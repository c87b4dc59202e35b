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
        """The shape of a blob; None if its rank is unknown."""
        return self._shapes.get(name)

    def rank(self, *names: str) -> int | None:
        """The rank of the first blob whose rank is known."""
        return next((len(self._shapes[name]) for name in names if name in self._shapes), None)

    def size(self, name: str, axis: int) -> int | None:
        """The size of a dim; None if it is not known as a number."""
        shape = self._shapes.get(name, ())
        dim = shape[axis] if -len(shape) <= axis < len(shape) else None
        return dim if isinstance(dim, int) else None

    def set_rank(self, name: str, rank: int | None) -> None:
        """Set the rank of a blob, unless it is known, or ``rank`` is None or not that of any tensor."""
        if rank is not None and 0 <= rank <= MAX_RANK and name not in self._shapes:
            self._store(name, (None,) * rank)

    def set_shape(self, name: str, shape: Sequence[Dim]) -> None:
        """Add a shape to what is known of a blob; it is ignored if the blob has another rank."""
        known = self._shapes.get(name)
        if known is None:
            self._store(name, tuple(shape))
        elif len(known) == len(shape):
            for axis, size in enumerate(shape):
                if isinstance(size, int):
                    self.set_size(name, axis, size)

    def set_size(self, name: str, axis: int, size: int | None) -> None:
        """Set the size of a dim, unless it is known, or the blob's rank is unknown, or ``size`` is None."""
        shape = self._shapes.get(name)
        if size is None or shape is None or not -len(shape) <= axis < len(shape) or shape[axis] is not None:
            return
        axis %= len(shape)
        self._store(name, (*shape[:axis], size, *shape[axis + 1 :]))

    def relate_sizes(self, *dims: tuple[str, int]) -> None:
        """Give dims, pairs of a blob and an axis, one size if one of them has it."""
        for name, axis in dims:
            size = self.size(name, axis)
            if size is not None:
                for other, at in dims:
                    self.set_size(other, at, size)
                return

    def relate_ranks(self, *names: str, rank: int | None = None) -> int | None:
        """Give blobs one rank if it is known, or one of them has it; return that rank."""
        common = self.rank(*names) if rank is None else rank
        for name in names:
            self.set_rank(name, common)
        return common

    def relate_shapes(self, *names: str, but: int | None = None) -> None:
        """Give blobs one shape, except for the size of the dim ``but``."""
        rank = self.relate_ranks(*names)
        if not rank or len({self._shapes.get(name) for name in names}) == 1:
            return
        for axis in range(rank):
            if but is None or axis != but % rank:
                self.relate_sizes(*[(name, axis) for name in names])

    def _store(self, name: str, shape: tuple[Dim, ...]) -> None:
        """Replace the shape of a blob; operands that are left out have none."""
        if name:
            self._shapes[name] = shape
            self.changed.add(name)
