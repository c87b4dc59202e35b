"""What the page docs/building.md builds and names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.documentation.pages import blocks_of
from support.documentation.runs import PageRun
from support.paths import ROOT

import caffe2_bridge as c2

PAGE = ROOT / "docs" / "building.md"


def test_it_builds_a_tagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = PageRun(tmp_path)
    for block in blocks_of(PAGE):
        page.run(block)
    assert c2.load("tagger").outputs == ("phones", "LSTM/hidden_state_last")


def test_it_is_one_page() -> None:
    assert len(PAGE.read_text().splitlines()) < 120


def test_it_names_what_the_builder_offers() -> None:
    from caffe2_bridge import builder

    cells = {name for name in builder.__all__ if name.endswith("Cell") and name != "Cell"}
    assert cells <= set(re.findall(r"\w+", PAGE.read_text()))
