"""The documents name files that exist, and link to pages that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from support.paths import ROOT

WRITTEN: Final = {"repro.py"}  # by commands
GENERATED: Final = ROOT / "docs" / "coverage.md"  # names groups of cases
PAGES: Final = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "benchmarks" / "README.md"]
FOLDERS: Final = "bridge|frontend|backend|pytorch|tests|scripts|docs|models|benchmarks"
FILE: Final = re.compile(rf"`((?:{FOLDERS})/[\w./-]*[\w/])`")
SHORT: Final = re.compile(r"`([a-z0-9_/]+\.py)`")
LINK: Final = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", sorted({*PAGES} - {GENERATED}), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_links_exist(page: Path) -> None:
    text = page.read_text()
    assert sorted(name for name in FILE.findall(text) if not (ROOT / name).exists()) == []
    assert sorted(link for link in LINK.findall(text) if not (page.parent / link).exists()) == []


@pytest.mark.parametrize("page", ["architecture.md", "debugging.md", "recurrent.md", "validation.md"])
def test_short_paths_end_a_path(page: str) -> None:
    """``recurrent/match.py`` is a file of some package."""
    known = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS.split("|") for path in (ROOT / folder).rglob("*.py")]
    named = set(SHORT.findall((ROOT / "docs" / page).read_text())) - WRITTEN
    assert sorted(name for name in named if not any(path.endswith(f"/{name}") for path in known)) == []
