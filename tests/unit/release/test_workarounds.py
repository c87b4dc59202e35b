"""Workarounds by version."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version
from release import workarounds
from release.workarounds import Workaround, advice, all_workarounds, find_workarounds, lowest_versions


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "    # onnxruntime 1.32: no kernel for int32 indices.",
            ("onnxruntime", "1.32", "no kernel for int32 indices."),
        ),
        ("    As of onnx 1.23, its Pad refuses negative pads", ("onnx", "1.23", "its Pad refuses negative pads")),
        ("onnxruntime 1.32, medians of 15 rounds", None),
        ("before onnx 1.23 it was another", None),
    ],
)
def test_marks(line: str, found: tuple[str, str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workarounds, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(f"\n{line}\n")
    expected = [] if found is None else [Workaround(found[0], Version(found[1]), "a.py:2", found[2])]
    assert list(find_workarounds(tmp_path / "a.py")) == expected


@pytest.mark.parametrize(
    ("seen", "lowest", "installed", "what"),
    [
        ("1.32", "1.31", "1.32.1", "stays"),
        ("1.32", "1.31", "1.33.0", "try without: 1.33.0 is installed"),
        ("1.30", "1.31", "1.32.1", "may go"),
        ("1.32", None, None, "stays"),
    ],
)
def test_advice(seen: str, lowest: str | None, installed: str | None, what: str) -> None:
    work = Workaround("onnxruntime", Version(seen), "a.py:1", "")
    assert advice(work, lowest and Version(lowest), installed and Version(installed)).startswith(what)


def test_no_workaround_is_older_than_what_the_project_takes() -> None:
    found = all_workarounds()
    assert {"onnx", "onnxruntime"} <= {work.package for work in found}
    lowest = lowest_versions()
    assert [work for work in found if advice(work, lowest.get(work.package), None).startswith("may go")] == []
