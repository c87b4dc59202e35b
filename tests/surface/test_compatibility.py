"""docs/compatibility.md is what ``scripts/compatibility`` writes, but for the newest versions of its day."""

from __future__ import annotations

import pytest

pytest.importorskip("yaml", reason="PyYAML is not installed: mkdocs brings it")

from release.compatibility import PAGE, lowest, newest_of, page

from caffe2_frontend.targets.table import all_targets, find_target


def test_the_page_is_generated() -> None:
    text = PAGE.read_text(encoding="utf-8")
    newest = newest_of(text)
    assert newest.keys() == lowest().keys()
    assert page(newest) == text


def test_the_page_has_every_target() -> None:
    assert all(find_target(target.name) is target for target in all_targets())
    assert {f"| `{target.name}` " for target in all_targets()} <= {
        line[: line.index("|", 2)] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    }
