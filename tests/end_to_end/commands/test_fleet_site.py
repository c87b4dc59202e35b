"""The site of a fleet, used in headless Chromium: dashboard, filters, search, keys, narrow screens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from support.browser import Browser, opened_browser

from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.index import index_page
from caffe2_fleet.site.summary import write_summary
from caffe2_validation import ValidationOptions

ROWS = "[...document.querySelectorAll('#models tbody tr')].filter(row => !row.hidden)"
NAMES = f"{ROWS}.map(row => row.cells[0].textContent)"
VERDICTS = ("agree", "disagree", "not covered", "could not run", "crashed", "not exported")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def result(index: int) -> ModelResult:
    verdict = VERDICTS[index % 6]
    return ModelResult(
        f"zoo/{'a_long_folder_without_spaces/' * 5}{index}", verdict, "reason " * 30 + "w" * 90,
        "" if verdict == "agree" else f"cause {index % 4}", worst=10.0 ** -(index % 9), operators=index,
        body_operators=index % 3, cases=index % 2, page=f"pages/{index} #.html", format="Caffe2", bytes=index * 1000,
        onnx="onnx/m.onnx" if verdict == "agree" else "", owner="vision" if index % 5 else "",
        compared_with_caffe2=verdict == "agree",
    )  # fmt: skip


def write_index(path: Path, count: int) -> Path:
    models = [result(index) for index in range(count)]
    summary: dict[str, Any] = {
        "models": [asdict(model) for model in models], "command": "c " + "x" * 300, "runtimes": [], "tolerances": {},
        "versions": {}, "skipped": [{"path": f"{'scope/' * 40}x.jpg", "reason": "a picture"}],
    }  # fmt: skip
    path.write_text(index_page(summary, {"results.csv": "CSV"}), encoding="utf-8")
    return path


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """An index of 120 models, 20 of each verdict."""
    return write_index(tmp_path / "index.html", 120)


def press(browser: Browser, facet: str, value: str) -> None:
    browser.js(f"document.querySelector('[data-facet={facet}][data-value=\"{value}\"]').click()")


def counts(browser: Browser, facet: str) -> dict[str, int]:
    buttons = f"[...document.querySelectorAll('[data-facet={facet}]')]"
    found = browser.js(f"{buttons}.map(b => [b.dataset.value, Number(b.querySelector('b').textContent)])")
    return dict(found)


def search_for(browser: Browser, words: str) -> None:
    box = "document.querySelector('[data-search]')"
    browser.js(f"{box}.value = '{words}'; {box}.dispatchEvent(new Event('input'))")


def test_a_screen_shows_25_models(browser: Browser, page: Path) -> None:
    browser.open(page, 1440, dark=False)
    assert browser.js(f"{ROWS}.filter(row => row.getBoundingClientRect().bottom <= innerHeight).length") >= 25
    assert browser.js("document.documentElement.scrollWidth") <= 1440
    browser.js("document.querySelector('#skipped summary').click()")
    assert browser.js("document.documentElement.scrollWidth") <= 1440
    assert browser.js("document.querySelector('h1').textContent").startswith("120 models: 20 agree, 20 disagree")


def test_filters_add_up(browser: Browser, page: Path) -> None:
    browser.open(page, 1440, dark=False)
    assert counts(browser, "verdict") == dict.fromkeys(VERDICTS, 20)
    assert counts(browser, "exported") == {"yes": 20, "no": 100}
    press(browser, "verdict", "crashed")
    press(browser, "verdict", "disagree")  # one or the other
    assert browser.js(f"{ROWS}.length") == 40
    assert counts(browser, "exported") == {"yes": 0, "no": 40}
    assert counts(browser, "verdict") == dict.fromkeys(VERDICTS, 20)  # its own filter does not count
    press(browser, "cause", "cause 1")  # and this
    expected = [i for i in range(120) if i % 6 in {1, 4} and i % 4 == 1]
    assert sorted(browser.js(f"{NAMES}.map(name => Number(name.split('/').at(-1)))")) == expected
    assert browser.js("document.querySelector('#shown').textContent") == f"{len(expected)} of 120 models"
    widths = "[...document.querySelectorAll('[data-value=disagree] rect')].map(r => Number(r.getAttribute('width')))"
    assert browser.js(f"Math.max(...{widths})") == 100
    address = browser.js("location.hash")
    assert address == "#verdict=crashed&verdict=disagree&cause=cause+1"
    browser.js("document.querySelector('#clear').click()")
    assert browser.js(f"{ROWS}.length") == 120
    browser.js(f"location.hash = '{address}'")
    browser.wait(f"{ROWS}.length === {len(expected)}")


def test_headers_sort_and_keys_move(browser: Browser, page: Path) -> None:
    browser.open(page, 1440, dark=True)
    assert browser.js(f"{ROWS}[0].cells[1].textContent") == "not exported"  # the worst first
    browser.js("document.querySelectorAll('#models th button')[5].click()")
    assert browser.js(f"{ROWS}.slice(0, 5).map(row => row.cells[5].textContent)") == [
        "0",
        "1 + 1",
        "3",
        "2 + 2",
        "4 + 1",
    ]
    browser.key("/")
    browser.call("Input.insertText", text="5 vision could")
    assert browser.js(f"{ROWS}.every(row => row.cells[1].textContent === 'could not run')")
    browser.key("ArrowDown")
    browser.key("ArrowDown")
    assert browser.js(f"{ROWS}.indexOf(document.activeElement.closest('tr'))") == 1
    browser.key("ArrowUp")
    href = browser.js("document.activeElement.getAttribute('href')")
    assert href == f"pages/{browser.js(f'{NAMES}[0]').split('/')[-1]}%20%23.html"
    browser.key("/")
    browser.key("Escape")
    assert browser.js(f"{ROWS}.length") == 120
    red = browser.js("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    assert red < 60


def test_of_thousands_of_models_the_first_are_shown(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_index(tmp_path / "index.html", 3000), 1440, dark=False)
    assert browser.js(f"{ROWS}.length") == 400
    browser.js("document.querySelectorAll('#models th button')[5].click()")
    assert browser.js(f"{ROWS}.slice(0, 3).map(row => row.cells[5].textContent)") == ["0", "1 + 1", "3"]
    assert browser.js(f"{ROWS}.length") == 400
    press(browser, "verdict", "agree")
    assert browser.js("document.querySelector('#shown').textContent") == "500 of 3000 models"
    browser.js("document.querySelector('#more').click()")
    assert browser.js(f"{ROWS}.length") == 500
    assert browser.js("document.querySelector('#more').hidden")


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_a_card_for_each_model(browser: Browser, page: Path, *, dark: bool) -> None:
    browser.open(page, 390, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= 390
    boxes = f"{ROWS}.slice(0, 9).flatMap(row => [...row.cells]).map(cell => cell.getBoundingClientRect().right)"
    assert browser.js(f"Math.max(...{boxes})") <= 390
    press(browser, "exported", "yes")
    assert browser.js(f"{ROWS}.length") == 20
    assert browser.js(f"getComputedStyle({ROWS}[0].cells[2], '::before').content") == '"exported: "'
    target = os.environ.get("VALIDATE_PICTURES")
    if target:
        Path(target, f"fleet-{'dark' if dark else 'light'}.png").write_bytes(browser.picture())


def fleet_results(changed: str) -> list[ModelResult]:
    """Return 40 models; the verdict of the first is given."""
    missing = {"code": "unsupported-operator", "severity": "error", "location": {"op_type": "NoSuchOperator"}}
    refused = ModelResult(
        "refused <b>", "not covered", "r", "unsupported-operator: NoSuchOperator", page="pages/r.html",
        findings=[missing], owner="vision",
    )  # fmt: skip
    first = ModelResult("zoo/0", changed, cause="" if changed == "agree" else "differs in onnxruntime-cpu")
    return [first, refused, *(ModelResult(f"zoo/{i}", "agree", owner="speech") for i in range(1, 39))]


def open_page(browser: Browser, path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace("<body>", '<body id="verdict">'), encoding="utf-8")
    browser.open(path, 1280, dark=False)
    assert browser.js("document.documentElement.scrollWidth") <= 1280


def test_the_site_of_a_fleet(browser: Browser, tmp_path: Path) -> None:
    write_summary(tmp_path, fleet_results("agree"), (), ValidationOptions(), "")
    assert not (tmp_path / "trends.html").exists()
    later = [replace(result, key="other") for result in fleet_results("disagree")]
    write_summary(tmp_path, later, (), ValidationOptions(), "")
    browser.open(tmp_path / "index.html", 1280, dark=False)
    search_for(browser, "vision unsupp")
    assert browser.js(NAMES) == ["refused <b>"]
    press(browser, "verdict", "agree")
    assert browser.js(NAMES) == []
    search_for(browser, "speech")
    assert browser.js(f"{NAMES}.length") == 38
    assert counts(browser, "owner") == {"speech": 38, "vision": 0}
    links = browser.js("[...document.querySelectorAll('nav a')].map(link => link.getAttribute('href'))")
    assert set(links) >= {"causes.html", "trends.html", "results.csv", "summary.json"}
    assert all((tmp_path / link).exists() for link in links)

    open_page(browser, tmp_path / "causes.html")
    cells = "[...document.querySelector('#{} tbody tr').cells].map(cell => cell.innerText.trim())"
    assert browser.js(cells.format("blockers")) == ["unsupported-operator", "NoSuchOperator", "1", "1"]
    browser.js("document.querySelector('#blockers summary').click()")
    assert browser.js("document.querySelector('#blockers details a').getAttribute('href')") == "pages/r.html"
    assert browser.js("document.querySelectorAll('#causes tbody tr').length") == 2

    open_page(browser, tmp_path / "trends.html")
    assert browser.js("document.querySelector('h1').textContent").startswith("1 worse, 0 better")
    assert browser.js(cells.format("worse"))[:3] == ["zoo/0", "agree", "disagree"]
    assert browser.js("document.querySelectorAll('#counts tbody tr').length") == 6
