"""Unique names of values."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Unique value names over a model and all its bodies.

    ``reserved`` are the names of blobs: each is kept for the first value that is bound to its blob.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._reserved = set(reserved)
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def claim(self, blob: str) -> str:
        """Return the blob's own name, or a fresh one after it where another value has it already."""
        if blob in self._taken:
            return self.fresh(blob)
        self._taken.add(blob)
        return blob

    def fresh(self, base: str) -> str:
        """Return ``base``, or ``base_1``, ``base_2`` ... where it is taken."""
        name = base
        if self._is_known(name):
            count = self._next.get(base, 1)
            while self._is_known(f"{base}_{count}"):
                count += 1
            self._next[base] = count + 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def _is_known(self, name: str) -> bool:
        return name in self._taken or name in self._reserved
