"""Run stages one after another, each in a process group of its own that is ended at its limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from gpu_suite import results
from gpu_suite.environment import Environment
from gpu_suite.stage_table import Stage
from gpu_suite.wheels import ROOT

Outcome = Literal["passed", "failed", "stopped", "not run"]
_POLL_SECONDS: Final = 0.5
_TAIL: Final = 4_000  # characters of a stage's output that are kept


@dataclass
class StageReport:
    """What a stage gave. ``reason`` says why it failed or was not run; ``output`` is the end of what it printed."""

    stage: str
    title: str
    outcome: Outcome = "not run"
    seconds: float = 0.0
    reason: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""

    def count(self, status: str) -> int:
        """Return the number of rows with a status."""
        return sum(row["status"] == status for row in self.rows)


def run_stages(
    stages: Sequence[Stage],
    environment: Environment,
    folder: Path,
    *,
    seconds: float,
    slower: float = 1,
    write: Callable[[Sequence[StageReport]], None],
) -> list[StageReport]:
    """Run stages in order, and write the report again whenever a stage has given something new.

    A stage that fails, ends abnormally or is stopped does not stop the others, unless it is a vital one.

    Args:
        stages: the stages, the most important first.
        environment: of their processes.
        folder: for their results and logs, and where they run.
        seconds: for all of them: stages that no time is left for are not run.
        slower: a factor of the limits of the stages.
        write: is called with all reports.
    """
    reports = [StageReport(stage.name, stage.title) for stage in stages]
    deadline = time.monotonic() + seconds
    lost = ""
    for stage, report in zip(stages, reports, strict=True):
        left = deadline - time.monotonic()
        if lost or left < 1:
            report.reason = lost or "no time is left"
            continue
        _run(stage, report, environment, folder, min(slower * stage.limit, left), lambda: write(reports))
        if stage.vital and report.outcome != "passed":
            lost = f"the stage {stage.name!r} failed"
        write(reports)
    write(reports)
    return reports


def _run(
    stage: Stage,
    report: StageReport,
    environment: Environment,
    folder: Path,
    limit: float,
    changed: Callable[[], None],
) -> None:
    rows, log = folder / f"{stage.name}.jsonl", folder / f"{stage.name}.log"
    rows.unlink(missing_ok=True)
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the commands of the table
            [*environment.prefix, *stage.command()],
            cwd=ROOT,
            env={**environment.variables, **stage.variables, results.VARIABLE: str(rows)},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        stopped = _wait(process, start + limit, rows, report, changed)
    report.seconds = round(time.monotonic() - start, 1)
    report.rows = results.read(rows)
    report.output = log.read_text(errors="replace")[-_TAIL:]
    failed = [row for row in report.rows if row["status"] == "failed"]
    if stopped:
        report.outcome, report.reason = "stopped", f"it took longer than {limit:.0f} s"
    elif failed:
        report.outcome, report.reason = "failed", str(failed[0].get("reason") or f"{failed[0]['name']} failed")
    elif process.returncode:
        report.outcome, report.reason = "failed", _last_line(report.output) or f"status {process.returncode}"
    else:
        report.outcome = "passed"


def _wait(
    process: subprocess.Popen[bytes], deadline: float, rows: Path, report: StageReport, changed: Callable[[], None]
) -> bool:
    """Wait for a process, and end it and its children at a deadline; return whether that was necessary."""
    while process.poll() is None:
        if time.monotonic() >= deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
        found = results.read(rows)
        if len(found) > len(report.rows):
            report.rows = found
            changed()
        time.sleep(_POLL_SECONDS)
    return False


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""
