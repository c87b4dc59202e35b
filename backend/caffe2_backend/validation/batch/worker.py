"""One model of a batch, in a process of its own: ``worker MODEL OPTIONS`` (JSON); prints JSON on its last line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from caffe2_backend.validation.api import run_validation
from caffe2_backend.validation.forms import read_model
from caffe2_backend.validation.options import ValidationOptions
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic
from caffe2_bridge.model import Model
from caffe2_frontend import check

_REASONS: Final = 3
_LONGEST: Final = 400


def outcome(path: Path, options: ValidationOptions) -> dict[str, Any]:
    """Check and validate a model: the fields of a ModelResult except its name and key."""
    start = time.perf_counter()
    found: dict[str, Any] = {"operators": 0}
    try:
        model = read_model(path)
        if isinstance(model, Model):
            found["operators"] = sum(check(model).converted.values())
        report = run_validation(model, options=options)
    except ConversionError as error:
        found |= {"verdict": "not covered", "reason": _summary(error.errors)}
    except (BridgeError, OSError) as error:
        found |= {"verdict": "could not run", "reason": _line(str(error))}
    else:
        worst = max((r.difference.max_abs for r in report.results if r.is_output), default=0.0)
        reasons = [f"{r.name} in {r.side}: {r.difference.reason}" for r in report.wrong]
        failed = {failure.side: failure for failure in reversed(report.failures)}
        reasons += [f"{side}: {_line(failure.reason)}" for side, failure in failed.items()]
        found |= {"verdict": report.verdict, "worst": worst, "reason": "; ".join(reasons[:_REASONS])}
        found |= {"weights": len(report.random_weights), "notes": list(report.notes), "cases": len(report.cases)}
        found["matrix"] = [[*sides, pair.worst, pair.agrees] for sides, pair in report.pairs.items()]
    return found | {"seconds": round(time.perf_counter() - start, 3)}


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _summary(errors: Sequence[Diagnostic]) -> str:
    """The first error, preferably one that known sizes would not fix, and the number of the others."""
    first, *others = sorted(errors, key=lambda finding: finding.code == "needs-shape")
    return _line(str(first)) + (f" (and {len(others)} more)" if others else "")


if __name__ == "__main__":
    print(json.dumps(outcome(Path(sys.argv[1]), ValidationOptions.from_json(sys.argv[2]))))  # noqa: T201 - read by the process that started this one
