"""Reports as pages of HTML."""

from __future__ import annotations

from dataclasses import replace

import pytest

from caffe2_validation.render.page import page
from caffe2_validation.report import BlobResult, Divergence, Failure, OptimizationFault, ValidationReport
from caffe2_validation.values import Difference

# A terminal's escape, a change of the direction of writing, a surrogate that UTF-8 cannot hold, and a tag.
NAME = "a\x1b[31m\u202e\udc80e<b>"
SHOWN = r"a\x1b[31m\u202e\udc80e&lt;b&gt;"
WRONG = Difference(agrees=False, reason=NAME, dtype="float32", max_abs=0.5, histogram=(1,) * 24)
REPORT = ValidationReport(
    NAME, "one", ("one", NAME), (BlobResult(NAME, NAME, NAME, 1, is_output=True, difference=WRONG),),
    failures=(Failure(NAME, NAME, NAME),), absent={NAME: NAME}, versions={NAME: NAME}, cases=(NAME,), guessed=(NAME,),
    random_weights=(NAME,), notes=(NAME,), command=NAME,
    divergences=(
        Divergence(NAME, NAME, NAME, (), None, NAME, NAME, WRONG, cause=NAME, folder=NAME, growth=((NAME, 1.0),)),
    ),
    optimizations=(OptimizationFault(NAME, NAME, "basic", (NAME,), (NAME,)),),
)  # fmt: skip


def test_names_are_escaped() -> None:
    text = page(REPORT, home=NAME)
    text.encode()
    assert SHOWN in text
    assert not [char for char in text if not char.isprintable() and char not in "\n\t"]
    assert "e<b>" not in text


@pytest.mark.parametrize(
    ("changes", "badge"),
    [
        ({"subjects": ("the export",)}, "agree (runtimes of the export; not compared with Caffe2)"),
        ({"subjects": ("the net",), "compared_with_caffe2": True}, "agree"),
    ],
)
def test_the_badge_says_what_was_compared(changes: dict[str, object], badge: str) -> None:
    equal = replace(WRONG, agrees=True, reason="")
    result = BlobResult("y", "two", "y", 1, is_output=True, difference=equal)
    report = replace(ValidationReport("m", "one", ("one", "two"), (result,)), **changes)  # type: ignore[arg-type]  # fields
    assert f'<span id="verdict" class="verdict agree">{badge}</span>' in page(report)
