"""Classes of names that stand for equal things."""

from __future__ import annotations


class Classes:
    """A union-find structure over names."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def root(self, name: str) -> str:
        """Return the representative of the class of a name."""
        parents = self._parents
        while name in parents:
            above = parents[name]
            parents[name] = parents.get(above, above)  # halves the way, so that the next search is shorter
            name = above
        return name

    def unite(self, first: str, second: str) -> None:
        """Make one class of those of two names, with the representative of the first."""
        a, b = self.root(first), self.root(second)
        if a != b:
            self._parents[b] = a
