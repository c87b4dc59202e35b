"""The report's page, clicked through in headless Chromium."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from support.browser import Browser, opened_browser
from support.paths import MODELS
from support.validation.faults import with_weight

from caffe2_backend.picture import sketch_model
from caffe2_bridge import Model, load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx
from caffe2_validation import ValidationReport, validate
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
