"""Templates of pages, with the style and the script that all pages share."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Final

_FOLDER: Final = Path(__file__).parent


def fill(template: Path, **parts: str) -> str:
    """Fill a template; ``style`` and ``script`` are the shared ones. The parts are HTML."""
    shared = {"style": _text(_FOLDER / "style.css"), "script": _text(_FOLDER / "tables.js")}
    return Template(_text(template)).substitute(shared, **parts)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
