"""The page of a model: what the verdict proves, the export or why there is none, diagnostics, the repro."""

from __future__ import annotations

import re

from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.model_page import model_page
from caffe2_validation.report import ValidationReport

FINDING = {"severity": "error", "code": "bad", "place": "n[0] <X>", "reason": "no & no", "hint": "type <this>"}


def proof(page: str) -> str:
    (found,) = re.findall(r'<p id="proof">(.*?)</p>', page)
    return str(found)


def test_a_model_without_a_report() -> None:
    result = ModelResult("zoo/<m>", "not covered", "why", findings=[FINDING], notes=["a note"], operators=3)
    page = model_page(result, root="../../")
    assert proof(page).startswith("Nothing is proved: ")
    assert "There is no exported file." in page
    assert "why<br>a note" in page
    assert '<details id="findings" open><summary>Diagnostics of the export (1)</summary>' in page
    assert "<code>n[0] &lt;X&gt;</code>: no &amp; no" in page
    assert "<br>Hint: type &lt;this&gt;</li>" in page
    assert '<a href="../../index.html">all models</a>' in page
    assert "zoo/&lt;m&gt;" in page
    verdicts = [proof(model_page(ModelResult("m", verdict))) for verdict in ("could not run", "crashed")]
    assert len(set(verdicts)) == 2


def test_a_model_with_a_report() -> None:
    report = ValidationReport("m", "workspace", ("workspace",), ())
    result = ModelResult(
        "zoo/m", "could not run", onnx="onnx/a #.onnx", onnx_bytes=1234, repro="repro/zoo/m", notes=["a note"],
        findings=[FINDING | {"severity": "note"}],
    )  # fmt: skip
    page = model_page(result, report, root="../")
    assert proof(page) == report.proof
    assert '<a href="../onnx/a%20%23.onnx"><code>onnx/a #.onnx</code></a>, 1,234 bytes' in page
    assert '<a href="../repro/zoo/m/"><code>repro/zoo/m/</code></a>' in page
    assert "<h1><code>zoo/m</code></h1>" in page
    assert '<details id="findings"><summary>Diagnostics of the export (1)</summary>' in page
    assert "<dd>a note</dd>" in page
    assert "nothing to export" in model_page(ModelResult("m", "agree", format="ONNX"))


def test_what_was_not_exported_shows_what_validation_found() -> None:
    report = ValidationReport("m", "workspace", ("workspace",), ())
    page = model_page(ModelResult("m", "not exported", "why"), report)
    assert 'class="verdict disagree">not exported<' in page
    assert "as there is none" in proof(page)
    assert 'id="results"' in page
