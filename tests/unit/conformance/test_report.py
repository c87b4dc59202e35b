from __future__ import annotations

import json
from pathlib import Path

import pytest
from conformance import report
from conformance.check import Finding, Result, Status, Task
from conformance.corpus import CaseRef


def result(case_id: str, status: Status, detail: str = "", kind: str = "op") -> Result:
    group = case_id.rpartition("/")[0]
    findings = (Finding("unsupported", detail, f"net[0] {group}"),) if status is Status.REFUSED else ()
    return Result(Task(CaseRef(Path(group), 0, case_id, group, kind)), status, detail, findings)


RESULTS = [
    result("FC/000", Status.PASSED),
    result("FC/001", Status.PASSED_WITH_SIZES),
    result("FC/002", Status.REFUSED, "rare"),
    result("FC/003", Status.REFUSED, "a|b"),
    result("FC/004", Status.REFUSED, "a|b"),
    result("nets/x/000", Status.PASSED, kind="net"),
    result("nets/x/001", Status.OUTSIDE, "NaN among boundaries", kind="net"),
]
BAD = [result("Bad/000", Status.WRONG, "Y: shape\nmore"), result("Bad/001", Status.CRASHED, "KeyError: 1\ntrace")]


def test_table_counts_each_type_and_the_total() -> None:
    rows = {line.split("  ")[0]: line.split()[-7:] for line in report.table([*RESULTS, *BAD]).splitlines() if line}
    assert rows["FC"] == ["1", "1", ".", ".", ".", "3", "."]
    assert rows["Bad"] == [".", ".", ".", ".", "1", ".", "1"]
    assert rows["nets/x"] == ["1", ".", ".", "1", ".", ".", "."]
    assert rows["total (9 cases)"] == ["2", "1", ".", "1", "1", "3", "1"]


def test_failures_are_wrong_or_crashed() -> None:
    assert not report.has_failures(RESULTS)
    assert report.has_failures(BAD[:1])
    assert report.has_failures(BAD[1:])


def test_details() -> None:
    assert report.details([*RESULTS, *BAD], verbose=False) == (
        "Bad/000: wrong: Y: shape\nBad/001: crashed: KeyError: 1"
    )
    verbose = report.details([*RESULTS, *BAD], verbose=True)
    assert "FC/002: refused: net[0] FC: rare [unsupported]" in verbose
    assert "trace" in verbose


def test_json_is_plain() -> None:
    data = json.loads(json.dumps(report.as_json(RESULTS)))
    assert data["totals"]["refused"] == 3
    assert data["groups"]["nets/x"]["passed"] == 1
    assert data["cases"][2]["findings"] == [{"code": "unsupported", "reason": "rare", "place": "net[0] FC"}]


def test_coverage_page() -> None:
    page = report.coverage_page(RESULTS)
    assert page == report.coverage_page(RESULTS[::-1])
    assert "| `FC` | 5 | 1 | 1 passed with sizes, 3 refused: a\\|b |  |" in page
    with_modules = report.coverage_page(RESULTS, {"FC/000", "FC/002", "Other/000"})
    assert "| `FC` | 5 | 1 | 1 passed with sizes, 3 refused: a\\|b | 2 |" in with_modules
    assert "## Nets of several operators\n\n1 in all, 1 with every case in the domain passing." in page


def test_coverage_page_lists_operators_without_cases() -> None:
    page = report.coverage_page(RESULTS, converting={"FC", "XavierFill"})
    assert "2 convert, as many as `caffe2-bridge ops` lists. 1 of them have no recorded cases of" in page
    assert page.count("`XavierFill`") == 1


def test_baseline_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    assert report.read_baseline(path) == set()
    written = report.write_baseline(path, [*RESULTS, *BAD])
    assert written == {"FC/000", "FC/001", "nets/x/000"}
    assert report.read_baseline(path) == written


@pytest.mark.parametrize("order", [1, -1])
def test_commonest_reason_does_not_depend_on_order(order: int) -> None:
    tied = [result("FC/000", Status.REFUSED, "b"), result("FC/001", Status.REFUSED, "a")]
    assert report.commonest_reason(tied[::order]) == "a"
