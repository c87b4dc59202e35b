"""The names of the tests that pass in real Caffe2, recorded once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

RECORDED: Final = Path(__file__).resolve().parents[1] / "golden" / "caffe2_tests.json"
Passed = dict[str, list[str]]


def read_passed(path: Path = RECORDED) -> Passed:
    """Return the names of passed tests by module."""
    found: Passed = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write_passed(passed: Mapping[str, Iterable[str]], path: Path = RECORDED) -> None:
    """Write the names of passed tests by module."""
    ordered = {module: sorted(names) for module, names in sorted(passed.items())}
    path.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
