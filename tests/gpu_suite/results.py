"""Results of stages: rows that a stage appends to a file as it gets them, so that they stay if it is stopped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, Literal, get_args

from gpu_suite.expected import STAND_IN, expected_failure

Status = Literal["passed", "failed", "expected", "skipped", "measured"]
STATUSES: Final = get_args(Status)
VARIABLE: Final = "GPU_SUITE_RESULTS"


def record(name: str, status: Status, **figures: Any) -> bool:
    """Append a row to the stage's results, and print it; return whether it did not fail.

    On a stand-in for a GPU, a failure that its list expects counts as ``expected``, and one that it expects and that
    does not come as ``failed``.

    Args:
        name: what was tested or measured.
        status: ``measured`` for figures without a verdict.
        figures: anything that JSON can hold; ``reason`` is what failed, in a sentence.
    """
    expected = expected_failure(os.environ.get(STAND_IN, ""), name)
    if expected and status == "failed":
        status, figures = "expected", {**figures, "reason": expected}
    elif expected and status == "passed":
        status, figures = "failed", {**figures, "reason": f"it passes, and was expected to fail: {expected}"}
    row = {"name": name, "status": status, **figures}
    line = json.dumps(row, default=str)
    print(line, flush=True)  # noqa: T201 - the log of the stage
    path = os.environ.get(VARIABLE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    return status != "failed"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows that were written so far; a row that is not complete yet is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
