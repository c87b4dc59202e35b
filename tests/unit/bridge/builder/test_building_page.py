"""The page docs/building.md, run from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

from support.paths import ROOT

import caffe2_bridge as c2

PAGE = ROOT / "docs" / "building.md"


def test_its_code_runs(tmp_path: Path) -> None:
    text = PAGE.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) > 3
    names = {"folder": tmp_path}
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        code = compile("\n" * line + block[1], str(PAGE), "exec")
        exec(code, names)  # noqa: S102 - our own documentation
    assert c2.load(tmp_path).outputs == ("phones", "LSTM/hidden_state_last")


def test_it_is_one_page() -> None:
    assert len(PAGE.read_text().splitlines()) < 120


def test_it_names_what_the_builder_offers() -> None:
    from caffe2_bridge import builder

    cells = {name for name in builder.__all__ if name.endswith("Cell") and name != "Cell"}
    assert cells <= set(re.findall(r"\w+", PAGE.read_text()))
