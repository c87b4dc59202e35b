"""The stage of recorded operators on the device webgpu: what it compares, without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.corpus import find_cases
from gpu_suite import results
from gpu_suite.stages import operators
from gpu_suite.stages.operators import Checker, Found
from support.paths import GOLDEN

RELU = find_cases(GOLDEN / "ops" / "Relu.npz")[0]


def test_a_case_is_run_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "WEBGPU", "cpu")

    assert Checker().check(RELU) == Found(operators._name(RELU))


@pytest.mark.parametrize(
    ("found", "good", "rows"),
    [
        (Found("ops/A"), True, ["passed"]),
        (Found("ops/A", wrong="off"), False, ["failed"]),
        (Found("ops/A", wrong=None), True, ["skipped"]),
        (Found("ops/A", on_host="no kernel"), False, ["passed", "failed"]),
        (Found("ops/B", on_host="no kernel"), True, ["passed"]),
        (Found("ops/B"), False, ["passed", "failed"]),
    ],
)
def test_what_stays_on_the_host_is_listed(
    found: Found, good: bool, rows: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(results.VARIABLE, str(tmp_path / "rows"))

    assert operators._record(found, {"ops/B": "no kernel"}) is good
    assert [row["status"] for row in results.read(tmp_path / "rows")] == rows


def test_the_list_names_recorded_operators() -> None:
    listed = [line.split(": ")[0] for line in operators.ON_HOST.read_text("ascii").splitlines()]

    assert listed == sorted(set(listed))
    assert all((GOLDEN / f"{name}.npz").is_file() for name in listed)
