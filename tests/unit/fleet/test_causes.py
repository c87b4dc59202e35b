"""Causes, trends and the table of results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_fleet.causes import Blocker, cause_of_errors, cause_of_sides, cause_of_text, find_blockers
from caffe2_fleet.result import ModelResult
from caffe2_fleet.table import write_parquet
from caffe2_fleet.trends import compare_runs

CODE = "unsupported"


def finding(code: str, operator: str, severity: str = "error") -> dict[str, Any]:
    return {
        "code": code,
        "severity": severity,
        "location": {"op_type": operator},
        "place": "",
        "reason": "",
        "hint": "",
    }


RESULTS = [
    ModelResult("a", "not covered", findings=[finding(CODE, "Foo"), finding(CODE, "Foo")]),
    ModelResult("b", "not covered", findings=[finding(CODE, "Foo"), finding(CODE, "Bar")]),
    ModelResult("c", "agree", findings=[finding("note", "Foo", "note")]),
]


def test_operators_that_stop_models() -> None:
    assert find_blockers(RESULTS) == [
        Blocker(CODE, "Foo", ["a", "b"], ["a"]),
        Blocker(CODE, "Bar", ["b"], []),
    ]


def test_causes_group_models() -> None:
    sized = Diagnostic("needs-shape", "r")
    unsupported = Diagnostic(CODE, "r", Location("n", 1, "Foo"))
    assert cause_of_errors([sized, unsupported]) == f"{CODE}: Foo"
    assert cause_of_errors([sized]) == "needs-shape"
    one, other = "/a/b.pb: the tensor 'x' has 12 bytes, not 1.5e3", "c/d.pb: the tensor 'y' has 7 bytes, not 8"
    assert cause_of_text(one) == cause_of_text(other) == "... the tensor ... has N bytes, not N"
    assert cause_of_sides("disagree", ["onnxruntime-cpu", "onnxruntime-cpu"]) == "differs in onnxruntime-cpu"
    assert cause_of_sides("agree", []) == ""


def test_trends() -> None:
    old = [ModelResult("a", "agree", worst=1e-6), ModelResult("b", "crashed"), ModelResult("c", "agree", worst=1e-6),
           ModelResult("gone", "agree"), ModelResult("same", "agree")]  # fmt: skip
    new = [ModelResult("a", "disagree", cause="x"), ModelResult("b", "agree"), ModelResult("c", "agree", worst=1e-3),
           ModelResult("new", "agree"), ModelResult("same", "agree")]  # fmt: skip
    found = compare_runs(old, new)
    assert [[new.model for _, new in pairs] for pairs in (found.worse, found.better, found.drifted)] == [
        ["a"],
        ["b"],
        ["c"],
    ]
    assert ([r.model for r in found.added], [r.model for r in found.gone]) == (["new"], ["gone"])
    assert found.counts["agree"] == (4, 4)
    assert found.causes == {("crashed", ""): (1, 0), ("disagree", "x"): (0, 1)}
    assert found.describe() == "1 worse, 1 better, 1 drifted, 1 added, 1 gone"


def test_the_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    full = ModelResult(
        "m", "disagree", "r", "c", worst=math.inf, key="k", owner="o", types={"Relu": 2},
        differences={"a / b": math.nan}, times={"read": 0.5}, versions={"onnx": "1"}, findings=RESULTS[1].findings,
    )  # fmt: skip
    write_parquet([*RESULTS, full], tmp_path / "t.parquet")
    rows = parquet.read_table(tmp_path / "t.parquet").to_pylist(maps_as_pydicts="strict")
    assert [row["status"] for row in rows] == ["not covered", "not covered", "agree", "disagree"]
    assert (rows[2]["findings"], rows[2]["errors"]) == ({"note": 1}, {})
    assert (rows[3]["hash"], rows[3]["operators"], rows[3]["errors"]) == ("k", {"Relu": 2}, {CODE: 2})
    assert math.isnan(rows[3]["differences"]["a / b"])
    write_parquet([], tmp_path / "empty.parquet")
    assert parquet.read_table(tmp_path / "empty.parquet").num_rows == 0
