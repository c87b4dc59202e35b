"""Classes of equal dims."""

from __future__ import annotations

from caffe2_frontend.interop.classes import Classes


class DimClasses(Classes):
    """Classes of the names of dims, each of which may have a known size."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, int] = {}
        self._contradictory: set[str] = set()

    def join(self, first: int | str, second: int | str) -> bool:
        """Record that two dims are equal. Return whether that was new.

        A class that would have two sizes loses both: the model cannot run, which is not decided here.
        """
        if isinstance(first, int):
            return isinstance(second, str) and self._set_size(self.root(second), first)
        if isinstance(second, int):
            return self._set_size(self.root(first), second)
        a, b = self.root(first), self.root(second)
        if a == b:
            return False
        self.unite(a, b)
        size = self._sizes.pop(b, None)
        if b in self._contradictory:
            self._contradictory.add(a)
            self._sizes.pop(a, None)
        elif size is not None:
            self._set_size(a, size)
        return True

    def size(self, symbol: str) -> int | None:
        """Return the size of a dim, None where it is unknown."""
        return self._sizes.get(self.root(symbol))

    def _set_size(self, root: str, size: int) -> bool:
        if root in self._contradictory:
            return False
        known = self._sizes.get(root)
        if known is None:
            self._sizes[root] = size
        elif known != size:
            del self._sizes[root]
            self._contradictory.add(root)
        return known is None
