"""Reports as pages of HTML."""

from __future__ import annotations

import io
import re
import zipfile
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest

from caffe2_validation.render.page import page
from caffe2_validation.report import BlobResult, Divergence, Failure, NonFinite, OptimizationFault, ValidationReport
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
    nonfinite=(NonFinite(NAME, NAME, NAME, "NaN", (0,), 1, 2, (3,), (NAME,), NAME, NAME),),
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


def test_the_verdict_says_what_it_proves() -> None:
    equal = BlobResult("y", "two", "y", 1, is_output=True, difference=replace(WRONG, agrees=True, reason=""))
    report = ValidationReport("m", "one", ("one", "two"), (equal,), cases=("a", "b"), seed=7)
    assert "For 2 cases of generated inputs (seed 7) every output is the same" in page(report)
    assert "none of which is real Caffe2" in report.proof
    assert "as real Caffe2 does" in replace(report, compared_with_caffe2=True).proof
    assert "different values" in REPORT.proof
    assert replace(report, results=()).proof.startswith("Nothing is proved")


def test_every_output_that_differs_has_a_histogram_and_sequences_a_plot_of_their_steps() -> None:
    def result(name: str, *, is_output: bool, error: float) -> BlobResult:
        rows = (0.0, error) if is_output else ()
        found = replace(WRONG, max_abs=error, rows=rows, shape=(2, 1, 1))
        return BlobResult("c", "two", name, 1, is_output=is_output, difference=found)

    outputs = [result(f"out{i}", is_output=True, error=1e-3) for i in range(9)]
    others = [result(f"blob{i}", is_output=False, error=1.0) for i in range(9)]
    text = page(
        ValidationReport("m", "one", ("one", "two"), (*outputs, *others, result("same", is_output=True, error=0.0)))
    )
    assert text.count('aria-label="histogram"') == 9 + 6
    assert text.count('aria-label="error by step"') == 9
    assert "step 1 (two): 1.00e-03" in text


def test_the_repro_is_in_the_page_or_the_command_that_writes_it(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "net.pb").write_bytes(b"net")
    (tmp_path / "repro.py").write_text("print(1)")
    found = replace(REPORT.divergences[0], folder=str(tmp_path))
    report = replace(REPORT, divergences=(found,), command="caffe2-bridge validate m")
    (data,) = re.findall(r'href="data:application/zip;base64,([^"]+)"', page(report))
    with zipfile.ZipFile(io.BytesIO(b64decode(data))) as archive:
        assert sorted(archive.namelist()) == ["repro/reference/net.pb", "repro/repro.py"]
        assert archive.read("repro/reference/net.pb") == b"net"
    without = page(replace(report, divergences=(replace(found, folder=""),)))
    assert 'data-copy="caffe2-bridge validate m --repro repro"' in without
    assert "data-copy=" not in page(report)
