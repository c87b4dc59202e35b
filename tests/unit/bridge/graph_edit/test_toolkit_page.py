"""The worked examples of docs/toolkit.md run, and their assertions hold."""

from __future__ import annotations

import re

from support.paths import ROOT

PAGE = ROOT / "docs" / "toolkit.md"


def test_the_worked_examples_hold() -> None:
    text = PAGE.read_text(encoding="utf-8")
    examples = list(re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    assert len(examples) >= 7
    names: dict[str, object] = {}
    for example in examples:
        line = text.count("\n", 0, example.start(1))
        code = compile("\n" * line + example[1], str(PAGE), "exec")
        exec(code, names)  # noqa: S102 - this project's own page, to hold it to what it says
