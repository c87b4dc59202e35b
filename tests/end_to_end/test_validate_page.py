"""The report's page, clicked through in headless Chromium."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.paths import MODELS
from support.validation.faults import with_weight

from caffe2_backend.picture import sketch_model
from caffe2_backend.validation import ValidationReport, validate
from caffe2_backend.validation.render.page import page, write_page
from caffe2_backend.validation.render.picture import colouring, error_picture
from caffe2_bridge import load
from caffe2_frontend import to_onnx

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


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
    """The colour of each operator's box in the picture, by operator type: the first of each type."""
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


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_the_picture_is_part_of_the_page_and_needs_no_network(report: ValidationReport, tmp_path: Path) -> None:
    text = page(report, error_picture(load(MODELS / "lstm"), report))
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?:", text)
    assert text.count("<svg") == page(report).count("<svg") + 1
    assert "#f3a297" in text.partition("<h2>The net</h2>")[2]
    onnx.save(to_onnx(load(MODELS / "lstm")), tmp_path / "lstm.onnx")
    exported = error_picture(tmp_path / "lstm.onnx", report)
    assert exported.startswith("<svg")
    assert "Scan" in exported


class Browser:
    """Chromium over its debugging pipe: messages are JSON, each ended by a zero byte."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [
            "bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', CHROMIUM, "--headless=new", "--no-sandbox",
            "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen(  # noqa: S603 - the browser of this machine
            command, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._id, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **params: Any) -> Any:
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                part = os.read(self._in, 1 << 16)
                assert part, "chromium ended"
                self._rest += part
            text, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                return answer["result"]

    def js(self, code: str) -> Any:
        result = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, path: Path, width: int, *, dark: bool) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.enable")
        self.call("Page.navigate", url=path.as_uri())
        self.js("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")
        self.js(
            "new Promise(done => { const wait = () =>"
            " document.querySelector('#verdict') ? done() : setTimeout(wait, 20); wait(); })"
        )

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self._in)
        os.close(self._out)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def file(report: ValidationReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(report, path)
    return path


VISIBLE = "document.querySelectorAll('#results tbody tr:not([hidden])').length"


def test_the_filters(browser: Browser, file: Path, report: ValidationReport) -> None:
    browser.open(file, 1100, dark=False)
    assert browser.js("document.querySelector('#verdict').textContent") == "disagree"
    outputs = sum(result.is_output or not result.difference.agrees for result in report.results)
    wrong = sum(not result.difference.agrees for result in report.results)
    for name, count in (("outputs", outputs), ("all", len(report.results)), ("wrong", wrong)):
        browser.js(f"document.querySelector('[data-show={name}]').click()")
        assert browser.js(VISIBLE) == count
        assert browser.js("document.querySelector('[aria-pressed=true]').dataset.show") == name
    assert len(report.results) > outputs
    browser.js("document.querySelector('summary').click()")
    assert browser.js("document.querySelector('details').open") is True
    assert "step_net[0] FC" in browser.js("document.querySelector('.divergence').textContent")


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
