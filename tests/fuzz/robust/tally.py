"""Counts of several runs, in one file."""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fuzz.robust.progress import Counts

_SECTIONS: Final = ("calls", "saves", "faults")


def add_to_tally(path: Path, calls: Counts, saves: Counter[tuple[str, str]], faults: Counter[str]) -> None:
    """Add the counts of a run to those of a file, which several runs may do at the same time."""
    counts = {
        "calls": {f"{kind}, {door}: {status}": count for (kind, door, status), count in calls.items()},
        "saves": {f"{form}: {kind}": count for (form, kind), count in saves.items()},
        "faults": dict(faults),
    }
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known: Mapping[str, Mapping[str, int]] = json.loads(file.read() or "{}")
        total = {name: Counter(known.get(name, {})) + Counter(counts[name]) for name in _SECTIONS}
        file.truncate(0)
        json.dump({name: dict(sorted(values.items())) for name, values in total.items()}, file, indent=1)
