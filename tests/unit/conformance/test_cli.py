from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_suite.__main__ as onnx_suite
import pytest
from click.testing import CliRunner, Result
from conformance import record, third_party, trips
from conformance.__main__ import GOLDEN, main
from conformance.recording import Recorded, operator, read_recorded, write_recorded


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, args), "--jobs", "1"])


@pytest.fixture
def relu() -> Recorded:
    return read_recorded(GOLDEN / "ops" / "Relu.npz")[0]


def altered(case: Recorded) -> Recorded:
    (name,) = case.meta["outputs"]
    return replace(case, arrays={**case.arrays, f"out/{name}": case.arrays[f"out/{name}"] + np.float32(1)})


def unknown(case: Recorded, op_type: str = "NoSuchOperator") -> Recorded:
    proto = operator(op_type, case.meta["inputs"], case.meta["outputs"]).SerializeToString()
    return Recorded({**case.meta, "kind": "op", "types": [op_type]}, proto, case.arrays)


def test_all_passes(tmp_path: Path, relu: Recorded) -> None:
    write_recorded(tmp_path / "ops" / "Relu.npz", [relu, relu])
    result = run(tmp_path, "--json", tmp_path / "out.json", "--coverage", tmp_path / "coverage.md")
    assert result.exit_code == 0, result.output
    data = json.loads((tmp_path / "out.json").read_text())
    assert {status: count for status, count in data["totals"].items() if count} == {"passed": 2}
    assert [case["id"] for case in data["cases"]] == ["ops/Relu/000", "ops/Relu/001"]
    assert "| `Relu` | 2 | 2 |" in (tmp_path / "coverage.md").read_text()


def test_wrong_output_fails(tmp_path: Path, relu: Recorded) -> None:
    write_recorded(tmp_path / "ops" / "Relu.npz", [relu, altered(relu)])
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "ops/Relu/001: wrong: " in result.output
    assert "at most by 1" in result.output


def test_refusal_is_no_failure_and_says_why(tmp_path: Path, relu: Recorded) -> None:
    write_recorded(tmp_path / "ops" / "NoSuchOperator.npz", [unknown(relu)])
    result = run(tmp_path, "--verbose")
    assert result.exit_code == 0, result.output
    assert "ops/NoSuchOperator/000: refused: " in result.output


def test_reference_evaluator(tmp_path: Path, relu: Recorded) -> None:
    write_recorded(tmp_path / "ops" / "Relu.npz", [relu, altered(relu)])
    result = run(tmp_path, "--executor", "reference", "--json", tmp_path / "out.json")
    assert result.exit_code == 1
    totals = json.loads((tmp_path / "out.json").read_text())["totals"]
    assert (totals["passed"], totals["wrong"]) == (1, 1)


def test_model_exported_once_for_all_sizes_in_a_form(tmp_path: Path) -> None:
    result = run(GOLDEN / "models" / "lstm", "--recurrent", "scan", "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    cases = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert [case["id"] for case in cases] == [f"lstm/{index}[scan]" for index in range(3)]
    assert {case["status"] for case in cases} == {"passed"}


@pytest.mark.parametrize(
    "args",
    [
        ("--types", "NoSuchOperator"),
        ("--types", "Relu,NoSuchOperator"),
        ("--types", "Relu", "--write-baseline"),
        ("--executor", "magic"),
        ("--show", "ops/NoSuchOperator"),
        ("nowhere",),
    ],
)
def test_wrong_usage(args: tuple[str, ...]) -> None:
    assert run(*args).exit_code == 2


def test_gradients_without_a_converter_are_included_on_request(tmp_path: Path, relu: Recorded) -> None:
    write_recorded(tmp_path / "ops" / "NoSuchGradient.npz", [unknown(relu, "NoSuchGradient")])
    result = run(tmp_path, "--types", "NoSuchGradient")
    assert result.exit_code == 2
    assert "--gradients" in result.output
    result = run(tmp_path, "--types", "NoSuchGradient", "--gradients", "--verbose")
    assert result.exit_code == 0, result.output
    assert "ops/NoSuchGradient/000: refused: " in result.output


def test_show_prints_a_case_and_its_conversion() -> None:
    result = run("--show", "ops/StringJoin")
    assert result.exit_code == 0, result.output
    for text in (
        "# recorded/ops/StringJoin/000",
        'type: "StringJoin"',
        "string[",
        "knowing ranks alone",
        "StringConcat",
    ):
        assert text in result.output
    assert "recorded/ops/StringJoin/001: " in result.output
    assert "# recorded/ops/StringJoin/001" in run("--show", "ops/StringJoin/001").output


def test_show_says_why_a_case_is_refused(tmp_path: Path, relu: Recorded) -> None:
    write_recorded(tmp_path / "ops" / "NoSuchOperator.npz", [unknown(relu)])
    output = run(tmp_path, "--show", "NoSuchOperator").output
    assert "## Refused, knowing sizes" in output


def test_the_other_tools_fail_where_nothing_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spec.py").write_text("")
    (tmp_path / "empty").mkdir()
    for command in (
        [record.main, tmp_path / "spec.py"],
        [third_party.main, tmp_path / "empty"],
        [onnx_suite.main, "--only", "no such test"],
    ):
        result = CliRunner().invoke(command[0], [*map(str, command[1:])])
        assert result.exit_code == 2, result.output
    monkeypatch.setattr("sys.argv", ["trips", "ops/NoSuchOperator"])
    assert trips.main() == 2
