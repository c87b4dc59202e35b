"""Run one test module in a process of its own, here or in real Caffe2."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_RECORDER: Final = Path(__file__).with_name("recorder.py")
_ROOT: Final = Path(__file__).resolve().parents[2]
_EXCEPTION: Final = re.compile(r"(?:E +)?[\w.]+(?:Error|Exception|Exit|Interrupt|Failure|Unsatisfiable|Flaky)\b:?")
_CONFIG: Final = "[pytest]\npython_files = *_test.py\n"


@dataclass(frozen=True)
class Outcome:
    """What became of one test: passed, failed, skipped, or started and not ended; and the reason of a failure."""

    outcome: str
    reason: str = ""

    @property
    def last_line(self) -> str:
        """The reason in one line: the last that names an exception, or else the last that is not blank."""
        lines = [line.strip(" +|\t") for line in self.reason.splitlines() if line.strip(" +|\t-")]
        exceptions = [line for line in lines if _EXCEPTION.match(line)]
        return (exceptions or lines or [""])[-1]


@dataclass(frozen=True)
class Limits:
    """Seconds for a module and for each of its tests."""

    module: int = 300
    test: int = 60


def run_module(
    module: str, copy: Path, *, real: Path | None, limits: Limits | None = None, select: str = ""
) -> dict[str, Outcome]:
    """Run a test module and return the outcome of each test by name.

    Args:
        module: under ``caffe2.python``.
        copy: the folder that contains ``caffe2``.
        real: the python with real Caffe2; None to run on this project's runtime.
        limits: for the module and its tests.
        select: a pytest expression that selects tests.

    A module that cannot be imported has one test, without a name, that failed.
    """
    limits = limits or Limits()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(_RECORDER, folder / "conftest.py")
        (folder / "pytest.ini").write_text(_CONFIG)
        test_file = folder / f"{module.replace('.', '_')}.py"
        test_file.write_text(f"from caffe2.python.{module} import *\n")
        results = folder / "results"
        command = [str(real or sys.executable), "-m", "pytest", "-q", "--tb=native"]
        command += ["-p", "no:cacheprovider", *(["-k", select] if select else []), str(test_file)]
        with (folder / "log").open("wb") as log, suppress(subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603 - the pythons of this project and of the oracle
                command, cwd=folder, env=_environment(folder, copy, real, limits), check=False,
                stdout=log, stderr=log, timeout=limits.module,
            )  # fmt: skip
        if not results.exists():
            return {"": Outcome("failed", (folder / "log").read_text("utf-8", "replace"))}
        return _read(results)


def _environment(folder: Path, copy: Path, real: Path | None, limits: Limits) -> dict[str, str]:
    packages = [] if real else [_ROOT / "bridge", _ROOT / "frontend", _ROOT / "backend"]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, packages)),
        "OMP_NUM_THREADS": "1",
        "CAFFE2_TESTS_RESULTS": str(folder / "results"),
        "CAFFE2_TESTS_SECONDS": str(limits.test),
        "CAFFE2_TESTS_COPY": "" if real else str(copy),
    }


def _read(results: Path) -> dict[str, Outcome]:
    """Return the last outcome of each test; one that started and did not end stopped the process."""
    outcomes: dict[str, Outcome] = {}
    for line in results.read_text("utf-8").splitlines():
        data = json.loads(line)
        outcome = Outcome(data["outcome"], data.get("reason", ""))
        previous = outcomes.get(data["test"])
        if previous is None or previous.outcome != "failed":
            outcomes[data["test"]] = outcome
    return {
        name: Outcome("failed", "the process ended, or ran out of time, during the test")
        if outcome.outcome == "started"
        else outcome
        for name, outcome in outcomes.items()
    }
