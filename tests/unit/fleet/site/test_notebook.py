"""Results of fleets in a notebook."""

from __future__ import annotations

from caffe2_fleet import Batch, ModelResult
from caffe2_fleet.site.notebook import results_html


def test_results_show_themselves_the_worst_first() -> None:
    bad = ModelResult("<b>", "disagree", "<why>", "c", cases=1, worst=0.5)
    batch = Batch([ModelResult("a", "agree", onnx="onnx/a.onnx"), bad], [])
    text = batch._repr_html_()
    assert text.startswith("<p><b>2 models: 1 agree, 1 disagree</b></p>")
    assert text.index("&lt;b&gt;") < text.index(">a<")
    assert "5.0e-01" in text
    assert "<why>" not in text
    assert bad._repr_html_() == results_html([bad])
    assert results_html([]).startswith("<p><b>no models</b></p>")


def test_of_many_the_worst_are_shown() -> None:
    text = results_html([ModelResult(f"m{i}", "agree") for i in range(500)])
    assert "500 agree, the worst 50" in text
    assert text.count("<tr>") == 51
