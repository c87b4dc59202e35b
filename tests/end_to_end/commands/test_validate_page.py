"""The report's page, clicked through in headless Chromium."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.browser import Browser, opened_browser
from support.paths import MODELS
from support.validation.faults import with_weight

from caffe2_backend.picture import sketch_model
from caffe2_bridge import Model, load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.summary import index_page, write_summary
from caffe2_frontend import to_onnx
from caffe2_validation import ValidationOptions, ValidationReport, validate
from caffe2_validation.render.page import page, write_page
from caffe2_validation.render.picture import colouring, error_picture


@pytest.fixture(scope="module")
def report() -> ValidationReport:
    good = load(MODELS / "lstm")
    weight = next(name for name in good.params if name.endswith("gates_t_w"))
    bad = with_weight(good, weight, lambda array: array * 1.5)
    return validate(good, other=bad, runtimes=("workspace",), lockstep=True, every_blob=True, matrix=True)


def test_the_page_needs_no_network_and_runs_nothing_of_the_models(report: ValidationReport) -> None:
    text = page(report)
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?:", text)
    hostile = ValidationReport("<script>alert(1)</script>", "<b>", ("<b>",), ())
    assert "<script>alert" not in page(hostile)
    assert "could not run" in page(hostile)


def painted(report: ValidationReport) -> dict[str, str]:
    """Return the colour of each operator's box in the picture, by operator type: the first of each type."""
    sketch = sketch_model(load(MODELS / "lstm"))
    chosen = colouring(sketch, report)
    found: dict[str, str] = {}
    for node in sketch.whole.every_node():
        found.setdefault(node.title, chosen.group(node))
    return found


def test_operators_are_coloured_by_their_worst_blob(report: ValidationReport) -> None:
    groups = painted(report)
    assert groups["RecurrentNetwork"] == "disagrees"
    assert groups["FC"] == "equal"  # the projection of the input comes before the bad weight
    assert groups["Sigmoid" if "Sigmoid" in groups else "LSTMUnit"] == "not compared"  # in the step net


def test_the_picture_is_part_of_the_page_and_needs_no_network(report: ValidationReport, tmp_path: Path) -> None:
    text = page(report, error_picture(load(MODELS / "lstm"), report))
    assert not re.search(r"(src|href)\s*=\s*[\"']|url\(|@import|https?:", text)
    assert text.count("<div data-picture") == 1
    onnx.save(to_onnx(load(MODELS / "lstm")), tmp_path / "lstm.onnx")
    assert error_picture(tmp_path / "lstm.onnx", report).startswith("<div data-picture")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def file(report: ValidationReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(report, path)
    return path


VISIBLE = "document.querySelectorAll('#results tbody tr:not([hidden])').length"


def test_the_filters(browser: Browser, file: Path, report: ValidationReport) -> None:
    browser.open(file, 1100, dark=False)
    assert browser.js("document.querySelector('#verdict').textContent") == "disagree"
    outputs = sum(result.is_output for result in report.results)
    wrong = sum(not result.difference.agrees for result in report.results)
    for name, count in (("output", outputs), ("all", len(report.results)), ("wrong", wrong)):
        browser.js(f"document.querySelector('[data-show={name}]').click()")
        assert browser.js(VISIBLE) == count
        assert browser.js("document.querySelector('[aria-pressed=true]').dataset.show") == name
    assert len(report.results) > outputs
    assert "step_net[0] FC" in browser.js("document.querySelector('.divergence').textContent")


COLUMN = (
    "[...document.querySelectorAll('#results tbody tr')].map(row => row.cells[{}])"
    ".map(cell => cell.dataset.v ?? cell.textContent)"
)


def test_headers_sort_the_table(browser: Browser, file: Path) -> None:
    browser.open(file, 1280, dark=False)
    for column, as_number in ((0, False), (4, True)):
        for descending in (False, True):
            browser.js(f"document.querySelectorAll('#results th button')[{column}].click()")
            found = browser.js(COLUMN.replace("{}", str(column)))
            ordered = sorted(found, key=float if as_number else str, reverse=descending)
            assert found == ordered
            sort = browser.js(f"document.querySelectorAll('#results th')[{column}].getAttribute('aria-sort')")
            assert sort == ("descending" if descending else "ascending")


def test_no_column_is_cut_at_1280_pixels(browser: Browser, report: ValidationReport, tmp_path: Path) -> None:
    scope = "gpu_0/" + "a_long_scope_without_spaces/" * 4
    results = tuple(replace(result, name=scope + result.name) for result in report.results)
    write_page(replace(report, results=results, command="caffe2-bridge validate " + "x" * 300), tmp_path / "wide.html")
    browser.open(tmp_path / "wide.html", 1280, dark=False)
    for kept in ("document.documentElement", "document.querySelector('.scroll')"):
        assert browser.js(f"{kept}.scrollWidth <= {kept}.clientWidth")
    assert browser.js("document.querySelector('#results').getBoundingClientRect().right") <= 1280


def test_the_page_opens_at_the_operator_that_is_named(
    browser: Browser, report: ValidationReport, tmp_path: Path
) -> None:
    chain = NetDef(name="n", op=[OperatorDef(type="Relu", input=[f"b{i}"], output=[f"b{i + 1}"]) for i in range(60)])
    named = replace(report.divergences[0], operator="n[50] Relu")
    found = replace(report, divergences=(named,))
    write_page(found, tmp_path / "deep.html", error_picture(Model.of(chain), found))
    browser.open(tmp_path / "deep.html", 1280, dark=False)
    browser.wait("document.querySelector('[data-ready]')")
    pane = "document.querySelector('[data-picture]').app.panes[0]"
    marked = f"{pane}.side.nodes.find(node => node.mark)"
    assert browser.js(f"{marked}.mark") == "first to disagree"
    assert browser.js(f"{marked}.location") == "n[50] Relu"
    assert browser.js("document.querySelector('.picture-legend').textContent").startswith("equal")
    browser.js("document.querySelector('.to-picture').click()")
    browser.wait("document.querySelector('[data-picture]').getBoundingClientRect().top < 300")
    inside = f"(() => {{ const p = {pane}, [x, y] = p.place({marked}), box = p.canvas.getBoundingClientRect();"
    inside += "return x > box.left && x < box.right && y > box.top && y < box.bottom; })()"
    assert browser.js(inside)


def batch_summary() -> dict[str, Any]:
    scope = "zoo/" + "a_long_folder_without_spaces/" * 5
    verdicts = ("agree", "disagree", "not covered", "could not run", "crashed", "agree")
    models = [
        ModelResult(
            f"{scope}{i}", verdict, "reason " * 30 + "w" * 90, worst=10.0**-i, operators=i,
            body_operators=10 - i, cases=1, page=f"pages/{i} #.html", onnx="onnx/m.onnx",
        )
        for i, verdict in enumerate(verdicts)
    ]  # fmt: skip
    return {
        "models": [asdict(model) for model in models], "counts": Counter(verdicts), "command": "c " + "x" * 300,
        "runtimes": [], "tolerances": {}, "versions": {}, "skipped": [{"path": f"{scope}x.jpg", "reason": "a picture"}],
    }  # fmt: skip


def test_the_index_of_a_batch(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(index_page(batch_summary()), encoding="utf-8")
    browser.open(tmp_path / "index.html", 1280, dark=False)
    for kept in ("document.documentElement", "document.querySelector('.scroll')"):
        assert browser.js(f"{kept}.scrollWidth <= {kept}.clientWidth")
    rows = "[...document.querySelectorAll('#models tbody tr')].filter(row => !row.hidden)"
    assert browser.js(f"{rows}.length") == 6
    assert browser.js(f"{rows}[0].cells[1].textContent") == "crashed"  # the worst first
    browser.js("document.querySelectorAll('#models th button')[2].click()")
    assert browser.js(f"{rows}.map(row => row.cells[2].textContent)") == [f"1.0e-0{i}" for i in (5, 4, 3, 2, 1)] + [
        "1.0e+00"
    ]
    browser.js("document.querySelector('[data-show=could-not-run]').click()")
    assert browser.js(f"{rows}.map(row => row.cells[1].textContent)") == ["could not run"]
    assert browser.js(f"{rows}[0].querySelector('a').getAttribute('href')") == "pages/3%20%23.html"
    browser.js("document.querySelector('#skipped summary').click()")
    assert browser.js("document.documentElement.scrollWidth") <= 1280
    browser.open(tmp_path / "index.html", 380, dark=True)
    assert browser.js("document.documentElement.scrollWidth") <= 380


def fleet_results(changed: str) -> list[ModelResult]:
    """Return 40 models; the verdict of the first is given."""
    missing = {"code": "unsupported-operator", "severity": "error", "location": {"op_type": "NoSuchOperator"}}
    refused = ModelResult(
        "refused <b>", "not covered", "r", "unsupported-operator: NoSuchOperator", page="pages/r.html",
        findings=[missing], owner="vision",
    )  # fmt: skip
    first = ModelResult("zoo/0", changed, cause="" if changed == "agree" else "differs in onnxruntime-cpu")
    return [first, refused, *(ModelResult(f"zoo/{i}", "agree", owner="speech") for i in range(1, 39))]


def open_page(browser: Browser, path: Path, text: str) -> None:
    path.write_text(text.replace("<body>", '<body id="verdict">'), encoding="utf-8")
    browser.open(path, 1280, dark=False)
    assert browser.js("document.documentElement.scrollWidth") <= 1280


def search_for(browser: Browser, words: str) -> None:
    box = "document.querySelector('[data-search]')"
    browser.js(f"{box}.value = '{words}'; {box}.dispatchEvent(new Event('input'))")


def test_the_site_of_a_fleet(browser: Browser, tmp_path: Path) -> None:
    write_summary(tmp_path, fleet_results("agree"), (), ValidationOptions(), "")
    assert not (tmp_path / "trends.html").exists()
    later = [replace(result, key="other") for result in fleet_results("disagree")]
    write_summary(tmp_path, later, (), ValidationOptions(), "")
    browser.open(tmp_path / "index.html", 1280, dark=False)
    rows = (
        "[...document.querySelectorAll('#models tbody tr')].filter(row => !row.hidden).map(r => r.cells[0].innerText)"
    )
    search = (
        "const box = document.querySelector('[data-search]'); box.value = '{}'; box.dispatchEvent(new Event('input'))"
    )
    browser.js("{" + search.format("vision unsupp") + "}")
    assert browser.js(rows) == ["refused <b>"]
    browser.js("document.querySelector('[data-show=agree]').click()")
    assert browser.js(rows) == []
    search_for(browser, "speech")
    assert browser.js(f"{rows}.length") == 38
    links = "[...document.querySelectorAll('body > p:first-of-type a')].map(link => link.getAttribute('href'))"
    assert set(browser.js(links)) >= {"causes.html", "trends.html"}

    open_page(browser, tmp_path / "causes.html", (tmp_path / "causes.html").read_text("utf-8"))
    cells = "[...document.querySelector('#{} tbody tr').cells].map(cell => cell.innerText.trim())"
    assert browser.js(cells.format("blockers")) == ["unsupported-operator", "NoSuchOperator", "1", "1"]
    browser.js("document.querySelector('#blockers summary').click()")
    assert browser.js("document.querySelector('#blockers details a').getAttribute('href')") == "pages/r.html"
    assert browser.js("document.querySelectorAll('#causes tbody tr').length") == 2

    open_page(browser, tmp_path / "trends.html", (tmp_path / "trends.html").read_text("utf-8"))
    assert browser.js("document.querySelector('h1').textContent").startswith("1 worse, 0 better")
    assert browser.js(cells.format("worse"))[:3] == ["zoo/0", "agree", "disagree"]
    assert browser.js("document.querySelectorAll('#counts tbody tr').length") == 6


def test_the_page_has_what_is_needed_to_repeat_it(report: ValidationReport) -> None:
    text = page(replace(report, command="caffe2-bridge validate 'a <b>' --lockstep"))
    assert "caffe2-bridge validate &#x27;a &lt;b&gt;&#x27; --lockstep" in text
    assert "rtol 0.0001, atol 1e-05" in text
    for name in ("caffe2-bridge", "numpy", "onnx", "Python"):
        assert f"<dt class='dim'>{name}</dt><dd>" in text
    assert "outputs (12)" in text


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, file: Path, *, dark: bool) -> None:
    browser.open(file, 380, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= 380
    red = browser.js("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    assert (red < 60) == dark
    assert browser.js("document.querySelectorAll('svg.plot circle').length") > 5
    target = os.environ.get("VALIDATE_PICTURES")
    if target:
        Path(target, f"phone-{'dark' if dark else 'light'}.png").write_bytes(browser.picture())
