"""Objects as HTML: what is escaped, and what is bounded."""

from __future__ import annotations

import pytest

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.diagnostics.html_repr import escaped, findings_html, folded_page, html_by, html_table

HOSTILE = "</td><script>alert(1)</script>\x1b\u202e"
SAFE = "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\x1b\\u202e"


def test_texts_are_escaped() -> None:
    assert escaped(HOSTILE) == SAFE
    table = html_table(HOSTILE, [(HOSTILE, 1)], (HOSTILE,))
    assert table.count(SAFE) == 3
    assert "<script" not in table
    finding = Diagnostic("needs-shape", HOSTILE, Location(HOSTILE), hint=HOSTILE)
    assert findings_html([finding]).count(SAFE) == 3
    assert findings_html([]) == ""


def test_of_many_diagnostics_the_first_are_shown() -> None:
    shown = findings_html([Diagnostic("needs-shape", "r", Location("n"))] * 300)
    assert "300 diagnostics, the first 100" in shown
    assert shown.count("<tr>") == 101


@pytest.mark.parametrize("page", ["", "x" * (2 << 20)])
def test_large_pages_are_left_out(page: str) -> None:
    assert folded_page("Picture", page, "too <large>") == "<p>Picture: too &lt;large&gt;</p>"


def test_pages_stay_in_their_frames() -> None:
    shown = folded_page("Picture", '<p title="\'">&amp;', "")
    assert 'srcdoc="&lt;p title=&quot;&#x27;&quot;&gt;&amp;amp;"' in shown
    assert "allow-same-origin" not in shown


def test_a_function_by_its_name() -> None:
    assert html_by("caffe2_bridge.diagnostics.html_repr:escaped", "<") == "&lt;"
