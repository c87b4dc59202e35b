"""Stages: run in order, stopped at their limits, survived where they fail; the report, written as they go."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_suite import results
from gpu_suite.copies import count_copies, host_operators
from gpu_suite.environment import Environment
from gpu_suite.expected import STAND_IN
from gpu_suite.page import page, worst, write_report
from gpu_suite.runner import StageReport, run_stages
from gpu_suite.stage_table import STAGES, Stage

TESTS = Path(__file__).parents[2]
RECORD = "from gpu_suite.results import record; record({name!r}, {status!r}, reason={reason!r});"


def stage(name: str, code: str, limit: float = 60, *, vital: bool = False) -> Stage:
    return Stage(name, f"The stage {name}", limit, ("-c", code), vital=vital)


def result(name: str, status: str = "passed", reason: str = "") -> str:
    return RECORD.format(name=name, status=status, reason=reason)


def run(tmp_path: Path, *stages: Stage, seconds: float = 60) -> list[StageReport]:
    environment = Environment({**os.environ, "PYTHONPATH": str(TESTS)})
    return run_stages(stages, environment, tmp_path, seconds=seconds, write=lambda _: None)


def test_stages_that_fail_do_not_stop_the_others(tmp_path: Path) -> None:
    reports = run(
        tmp_path,
        stage("raises", result("one") + "raise SystemError('broken')"),
        stage("dies", result("one") + "import os; os.abort()"),
        stage("records", result("one", "failed", "one is off") + result("two")),
        stage("good", result("one") + result("two", "measured")),
    )

    assert [report.outcome for report in reports] == ["failed", "failed", "failed", "passed"]
    assert reports[0].reason == "SystemError: broken"
    assert reports[1].count("passed") == 1
    assert reports[2].reason == "one is off"
    assert worst(reports) == "failed"


def test_a_stage_is_stopped_at_its_limit_with_its_children(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    start = time.monotonic()

    slow, after = run(tmp_path, stage("slow", result("one") + child + "time.sleep(60)", 3), stage("after", result("x")))

    assert time.monotonic() - start < 30
    assert (slow.outcome, slow.reason, slow.count("passed")) == ("stopped", "it took longer than 3 s", 1)
    assert after.outcome == "passed"


def test_nothing_follows_a_vital_stage_that_fails(tmp_path: Path) -> None:
    first, second = run(tmp_path, stage("first", "raise SystemExit(1)", vital=True), stage("second", result("x")))

    assert first.outcome == "failed"
    assert (second.outcome, second.reason) == ("not run", "the stage 'first' failed")


def test_no_stage_starts_when_no_time_is_left(tmp_path: Path) -> None:
    first, second = run(tmp_path, stage("first", "import time; time.sleep(9)"), stage("second", "pass"), seconds=3)

    assert first.outcome == "stopped"
    assert (second.outcome, second.reason) == ("not run", "no time is left")


def test_results_are_written_while_a_stage_runs(tmp_path: Path) -> None:
    seen: list[list[int]] = []

    def write(reports: Sequence[StageReport]) -> None:
        seen.append([len(report.rows) for report in reports])

    code = result("one") + "import time; time.sleep(3);" + result("two")
    environment = Environment({**os.environ, "PYTHONPATH": str(TESTS)})
    run_stages([stage("s", code)], environment, tmp_path, seconds=60, write=write)

    assert seen[0] == [1]
    assert seen[-1] == [2]


def test_a_row_that_is_not_complete_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text('{"name": "a", "status": "passed"}\n{"name": "b", "sta')

    assert [row["name"] for row in results.read(tmp_path / "rows")] == ["a"]
    assert results.read(tmp_path / "nothing") == []


def test_the_report_is_json_and_a_page(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"name": "a|b", "status": "measured", "ours_ms": 1.23456789},
        {"name": "c", "status": "failed", "reason": "two\nlines"},
        {"name": "d", "status": "failed", "reason": "long " * 1000},
    ]
    report = StageReport("rnn", "Recurrent nets", "failed", 2.5, "c failed", rows)

    write_report(tmp_path / "out.json", {"date": "today"}, [report])

    document = json.loads((tmp_path / "out.json").read_text())
    assert document["outcome"] == "failed"
    assert document["stages"][0]["rows"] == rows
    text = (tmp_path / "out.md").read_text()
    assert "| Recurrent nets | failed | 2.5 | 0 | 2 | 0 | 0 | 1 | c failed |" in text
    assert "| a\\|b | measured | 1.235 |  |" in text
    assert "| c | failed |  | two lines |" in text
    assert max(map(len, text.splitlines())) < 300
    assert next(iter(page({}, []))) == "# caffe2-bridge on CUDA"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "out.md"]


def test_failures_of_a_stand_in_are_expected_strictly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    monkeypatch.setenv(results.VARIABLE, str(rows))
    monkeypatch.setenv(STAND_IN, "emulated-cuda")
    listed = "tests/end_to_end/test_runtime_gpu.py::test_golden_models[lstm]"

    found = [
        results.record(name, status)
        for name in (listed, "another", "first run")
        for status in ("failed", "passed", "measured")
    ]

    assert found == [True, False, True, False, True, True, True, False, True]
    assert [row["status"] for row in results.read(rows)[:2]] == ["expected", "failed"]
    assert results.read(rows)[1]["reason"] == "it passes, and was expected to fail: kernels compute nothing"
    monkeypatch.setenv(STAND_IN, "")
    assert not results.record(listed, "failed")


def test_all_stages_fit_into_nine_minutes() -> None:
    assert sum(stage.limit for stage in STAGES) < 9 * 60
    assert STAGES[0].vital
    assert all(stage.command()[0] == sys.executable for stage in STAGES)


def node(name: str, op_type: str, provider: str = "CUDAExecutionProvider") -> dict[str, Any]:
    return {"cat": "Node", "name": name, "args": {"op_name": op_type, "provider": provider}}


EVENTS: list[dict[str, Any]] = [
    node("Memcpy_kernel_time", "MemcpyToHost"),
    node("Memcpy_fence_before", "MemcpyToHost"),
    node("Memcpy_kernel_time", "MemcpyToHost"),
    node("m_kernel_time", "MemcpyFromHost"),
    node("gru_kernel_time", "GRU", "CPUExecutionProvider"),
    {"cat": "Session", "name": "model_run"},
]


def test_copies_are_counted() -> None:
    assert count_copies(EVENTS) == {"MemcpyToHost": 2, "MemcpyFromHost": 1}
    assert host_operators(EVENTS) == {"GRU": 1}
    assert count_copies([]) == {}


@pytest.mark.parametrize("stage_name", [one.name for one in STAGES])
def test_the_programs_of_the_stages_exist(stage_name: str) -> None:
    (found,) = (one for one in STAGES if one.name == stage_name)
    if found.words[0] == "-m" and found.words[1] != "pytest":
        assert (TESTS / Path(*found.words[1].split("."))).with_suffix(".py").is_file()
    else:
        assert all(Path(word).exists() or not word.endswith(".py") for word in found.words if word.startswith("/"))
