"""Reports of validations in a notebook."""

from __future__ import annotations

from dataclasses import replace

from support.nets import net, op

from caffe2_bridge import Model
from caffe2_validation import ValidationReport, validate
from caffe2_validation.render.notebook import report_html
from caffe2_validation.report import Failure


def test_a_report_shows_verdict_proof_and_page() -> None:
    model = Model.of(net(op("Relu", "x", "y"), inputs="x", outputs="y"))
    report = validate(model, runtimes=["workspace", "onnxruntime-cpu"])
    text = report._repr_html_()
    assert report.proof in text
    assert f"n: {report.verdict_text}" in text
    assert text.count("<tr>") == 2  # the head, and the worst case of the one output
    assert "&lt;!doctype html&gt;" in text
    assert "<script" not in text


def test_what_failed_is_text() -> None:
    failed = ValidationReport("<m>", "a", ("a", "b"), (), failures=(Failure("*", "b", "<no>"),))
    text = report_html(replace(failed, sides=("<a>",)))
    assert "&lt;no&gt;" in text
    assert "<m>" not in text
    assert "<no>" not in text
