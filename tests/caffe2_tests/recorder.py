"""A conftest.py for a folder with Caffe2's tests: write the outcome of each as a line of JSON.

It runs under this project's Python and under real Caffe2's Python 3.8. Its environment: CAFFE2_TESTS_RESULTS is the
file to write, CAFFE2_TESTS_SECONDS limits a test, and CAFFE2_TESTS_COPY is the copy of Caffe2's Python files to install
the hook for, empty for real Caffe2.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
from pathlib import Path
from typing import Any, Dict, Iterator

import numpy as np
import pytest

_default_rng = np.random.default_rng
_seeds = itertools.count()


def _seeded_rng(seed: Any = None) -> Any:
    """Return a generator that draws the same numbers in each run of a test, for workspaces without a seed."""
    return _default_rng(next(_seeds) if seed is None else seed)


if os.environ["CAFFE2_TESTS_COPY"]:
    np.random.default_rng = _seeded_rng
    from caffe2_backend import install_caffe2

    install_caffe2(os.environ["CAFFE2_TESTS_COPY"])


def pytest_configure() -> None:
    """Draw the same examples each time, and do not measure time, of which a first run needs more here."""
    import hypothesis

    _without_deadlines(hypothesis)
    with contextlib.suppress(ImportError):
        # Newer versions draw constants of the sources under test, which takes longer than the tests.
        from hypothesis.internal.conjecture import providers

        setattr(providers, "is_local_module_file", lambda *_: False)  # noqa: B010 - a function replaces a cached one
    _accept_positions()
    checks = list(hypothesis.HealthCheck)
    hypothesis.settings.register_profile(
        "caffe2-tests", derandomize=True, deadline=None, max_examples=10, database=None, suppress_health_check=checks
    )
    hypothesis.settings.load_profile("caffe2-tests")


def _accept_positions() -> None:
    """Let ``arrays`` take its arguments by position, as before."""
    from hypothesis.extra import numpy as strategies

    arrays: Any = strategies.arrays

    def arrays_by_position(dtype: Any, shape: Any, elements: Any = None, fill: Any = None, unique: bool = False) -> Any:
        return arrays(dtype, shape, elements=elements, fill=fill, unique=unique)

    setattr(strategies, "arrays", arrays_by_position)  # noqa: B010 - a function replaces another one


def _without_deadlines(hypothesis: Any) -> None:
    """Do not limit examples, and do not minimize or explain one that fails, as only the outcome counts."""
    make = hypothesis.settings.__init__
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)

    def make_without(self: Any, *args: Any, **options: Any) -> None:
        fixed = {"deadline": None, "phases": phases, "suppress_health_check": list(hypothesis.HealthCheck)}
        make(self, *args, **{**options, **fixed})

    hypothesis.settings.__init__ = make_without


def _expired(*_: object) -> None:
    raise TimeoutError(f"the test took more than {os.environ['CAFFE2_TESTS_SECONDS']} s")


@pytest.fixture(autouse=True)
def _seeded_and_limited() -> Iterator[None]:
    global _seeds  # noqa: PLW0603 - each test starts anew
    _seeds = itertools.count()
    random.seed(0)
    np.random.seed(0)
    signal.signal(signal.SIGALRM, _expired)
    signal.alarm(int(os.environ["CAFFE2_TESTS_SECONDS"]))
    yield
    signal.alarm(0)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write which test runs now, so that one that ends the process is known."""
    _write({"test": nodeid.partition("::")[2], "outcome": "started"})


def pytest_runtest_logreport(report: Any) -> None:
    """Write the outcome of a test."""
    if report.when == "call" or report.outcome != "passed":
        reason = ""
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash is not None else str(report.longrepr)
        _write({"test": report.nodeid.partition("::")[2], "outcome": report.outcome, "reason": reason})


def pytest_collectreport(report: Any) -> None:
    """Write why a module cannot be imported."""
    if report.outcome == "failed":
        _write({"test": "", "outcome": "failed", "reason": str(report.longrepr)})


def _write(line: Dict[str, str]) -> None:
    with Path(os.environ["CAFFE2_TESTS_RESULTS"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
