"""What a validation costs: the character model against real Caffe2, its process warm; and lock step on it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from caffe2_bridge import load
from caffe2_validation import validate
from caffe2_validation.diagnose.divergences import lock_step
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.specs import make_cases
from caffe2_validation.runtimes import find_runtime
from caffe2_validation.sides import Side

MODEL: Final = Path(__file__).parents[1] / "models" / "char_rnn"
LIMIT_SECONDS: Final = 2.0
ROUNDS: Final = 7


def main() -> int:
    """Print a table; 1 where the goal is missed or something disagrees."""
    cold = time.perf_counter()
    agrees = validate(MODEL, runtimes=("caffe2", "onnxruntime-cpu")).agrees
    print(f"{'validate, first (starts real Caffe2)':42} {time.perf_counter() - cold:6.2f} s")
    forms = Forms(load(MODEL), recurrent="scan")
    case = make_cases(forms.graph, forms.net)[1]
    reference = Side("net", find_runtime("caffe2"), forms.net)
    candidate = Side("export", find_runtime("onnxruntime-cpu"), forms.graph)
    warm = measure(lambda: validate(MODEL, runtimes=("caffe2", "onnxruntime-cpu")).agrees)
    rows = {
        "validate, warm": warm,
        "validate, warm, every blob, three runtimes": measure(lambda: validate(MODEL, every_blob=True).agrees),
        f"lock step, {case.name}, Scan": measure(lambda: lock_step(reference, candidate, case) is None),
    }
    for name, (seconds, good) in rows.items():
        print(f"{name:42} {seconds:6.2f} s  {'agrees' if good else 'DISAGREES'}")
    return 0 if agrees and warm[0] < LIMIT_SECONDS and all(good for _, good in rows.values()) else 1


def measure(run: Callable[[], bool]) -> tuple[float, bool]:
    """Return the median of the seconds, and whether all runs were good."""
    times, good = [], True
    for _ in range(ROUNDS):
        start = time.perf_counter()
        good = run() and good
        times.append(time.perf_counter() - start)
    return statistics.median(times), good


if __name__ == "__main__":
    sys.exit(main())
