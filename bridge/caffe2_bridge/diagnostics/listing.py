"""The first of many names in a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def listed(names: Sequence[str], most: int, spelled: Callable[[str], str] = repr) -> str:
    """Return names in quotes, or as ``spelled``; behind the first ``most``, only how many there are more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(spelled, names[:most])) + more
