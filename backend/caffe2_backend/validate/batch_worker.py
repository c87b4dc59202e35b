"""One model of a batch: ``batch_worker MODEL [RUNTIME...]``, run as a module; JSON on its last line."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from caffe2_backend.validate.run import validate
from caffe2_backend.validate.sides import Forms, read_model
from caffe2_bridge.diagnostics import BridgeError, ConversionError
from caffe2_bridge.model import Model
from caffe2_frontend import check


def outcome(path: Path, runtimes: list[str]) -> dict[str, Any]:
    """What became of a model: the fields of a ModelResult but for its name and key."""
    start = time.perf_counter()
    found: dict[str, Any] = {"operators": 0}
    try:
        model = read_model(path)
        if isinstance(model, Model):
            found["operators"] = sum(check(model).converted.values())
        Forms(model).graph  # noqa: B018 - to tell what does not convert from what does not run
        report = validate(model, None, runtimes or None)
    except ConversionError as error:
        found |= {"verdict": "not covered", "reason": str(error.findings[0])}
    except (BridgeError, OSError) as error:
        found |= {"verdict": "could not run", "reason": str(error)}
    else:
        worst = max((r.difference.max_abs for r in report.results if r.is_output), default=0.0)
        reasons = [f"{r.name} in {r.side}: {r.difference.reason}" for r in report.wrong]
        reasons += [f"{failure.side}: {failure.reason}" for failure in report.failures]
        found |= {"verdict": report.verdict, "worst": worst, "reason": reasons[0] if reasons else ""}
    return found | {"seconds": round(time.perf_counter() - start, 3)}


if __name__ == "__main__":
    print(json.dumps(outcome(Path(sys.argv[1]), sys.argv[2:])))  # noqa: T201 - the answer to who started this
