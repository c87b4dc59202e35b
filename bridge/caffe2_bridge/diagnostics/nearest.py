"""The names that someone who typed another one may have meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher


def nearest_first(names: Iterable[str], unknown: Collection[str]) -> list[str]:
    """Return names in the order of their likeness to any of those that do not exist."""
    return sorted(names, key=lambda name: -max(_likeness(name, other) for other in unknown))


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()
