"""Templates of pages, with the style and the script that all pages share."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Final

_FOLDER: Final = Path(__file__).parent


def fill(name: str, **parts: str) -> str:
    """Fill a template of this folder; ``style`` and ``script`` are the shared ones. The parts are HTML."""
    shared = {"style": _text("style.css"), "script": _text("tables.js")}
    return Template(_text(name)).substitute(shared, **parts)


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
