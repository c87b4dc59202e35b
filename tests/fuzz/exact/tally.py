"""Add up what many runs of the fuzzer came to, by the commit that they ran on, in a file."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

from fuzz.exact.lane import Judged
from fuzz.exact.verdict import Outcome

_ROOT: Final = Path(__file__).resolve().parents[3]


def commit() -> str:
    """The commit that is checked out, with ``-dirty`` where files differ from it."""
    done = subprocess.run(  # noqa: S603 - no part of the command comes from outside
        ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=9"],  # noqa: S607 - the user's git
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


class Tally:
    """The counts in a file: ``{commit: {"nets", "outcomes", "seeds"}}``, where seeds have their numbers of batches.

    A batch that was counted before counts again: give each run a seed of its own.
    """

    def __init__(self, path: Path, at: str | None = None) -> None:
        self._path = path
        self._all: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        self._here = self._all.setdefault(at or commit(), {"nets": 0, "outcomes": {}, "seeds": {}})

    def add(self, judged: Judged) -> None:
        """Count the cases of a batch, and write the file."""
        here, seed = self._here, str(judged.batch.seed)
        here["nets"] += judged.nets
        here["seeds"][seed] = here["seeds"].get(seed, 0) + 1
        counts = Counter(here["outcomes"])
        counts.update(str(verdict.outcome) for verdict in judged.verdicts)
        here["outcomes"] = dict(counts)
        self._path.write_text(json.dumps(self._all, indent=1))

    def lines(self) -> list[str]:
        """A table of this commit's counts."""
        counts = self._here["outcomes"]
        table = [f"{counts.get(outcome, 0):8} {outcome}" for outcome in Outcome]
        return [*table, f"{sum(counts.values()):8} cases of {self._here['nets']} nets, in all runs on this commit"]
