"""The dashboard of a fleet, and the index as a whole: counts, and text of models that stays text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.facets import FACETS, dashboard, export_of, peer_of
from caffe2_fleet.site.index import index_page

HOSTILE = '"><script>alert(1)</script>'
RESULTS = [
    ModelResult("a", "agree", operators=5, onnx="onnx/a.onnx", cases=3, compared_with_caffe2=True),
    ModelResult("b", "agree", operators=50, format="ONNX", cases=3, compared_with_net_evaluator=True),
    ModelResult("c", "disagree", operators=5, onnx="onnx/c.onnx", cases=3, cause="x"),
    ModelResult("d", "not covered", operators=990, body_operators=10, cause="y"),
    ModelResult("e", "crashed", cause="x"),
]


def bars(facet: str) -> dict[str, int]:
    found = re.findall(rf'data-facet="{facet}" data-value="([^"]*)".*?<b>(\d+)</b>', dashboard(RESULTS))
    return {value: int(count) for value, count in found}


def test_the_counts() -> None:
    assert list(bars("verdict").items()) == [("crashed", 1), ("not covered", 1), ("disagree", 1), ("agree", 2)]
    assert bars("exported") == {"yes": 2, "no": 2, "is ONNX": 1}
    assert bars("against") == {"real Caffe2": 1, "PyTorch": 1, "runtimes only": 1}
    assert list(bars("size").items()) == [("1,000 or more", 1), ("10 to 99", 1), ("1 to 9", 2), ("not read", 1)]
    assert list(bars("cause").items()) == [("x", 2), ("y", 1)]
    assert bars("owner") == {}
    assert 'id="by-owner"' not in dashboard(RESULTS)
    assert (export_of(RESULTS[3]), peer_of(RESULTS[3])) == ("no", "")


def test_bars_have_the_colours_of_verdicts() -> None:
    (bar,) = re.findall(r'data-value="1 to 9".*?</svg>', dashboard(RESULTS))
    parts = re.findall(r'class="(\w+)" x="([\d.]+)" width="([\d.]+)"', bar)
    assert parts == [("agree", "0.00", "50.00"), ("could", "50.00", "0.00"), ("disagree", "50.00", "50.00")]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, str | None]] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag == "tr" and ("data-mark", "agree") in attrs:
            self.rows.append(dict(attrs))


def test_names_are_text_and_select_their_rows() -> None:
    result = ModelResult(HOSTILE, "agree", HOSTILE, HOSTILE, owner=HOSTILE, page=f"pages/{HOSTILE}.html", onnx=HOSTILE)
    summary = {"models": [vars(result)], "skipped": [{"path": HOSTILE, "reason": HOSTILE}], "command": HOSTILE}
    page = index_page(summary | {"runtimes": [HOSTILE], "tolerances": {}, "versions": {HOSTILE: HOSTILE}})
    tags = Tags()
    tags.feed(page)
    assert tags.scripts == 1  # the page's own
    (row,) = tags.rows
    assert {name: row[f"data-{name}"] for name in ("verdict", "cause", "owner")} == {
        "verdict": "agree", "cause": HOSTILE, "owner": HOSTILE,
    }  # fmt: skip
    assert all(f"data-{facet.name}" in row for facet in FACETS)
    assert not re.search(r"url\(|@import|https?:", page)


def test_an_empty_fleet_has_a_page() -> None:
    empty = {"models": [], "skipped": [], "command": "", "runtimes": [], "tolerances": {}, "versions": {}}
    assert "<h1>no models</h1>" in index_page(empty)
