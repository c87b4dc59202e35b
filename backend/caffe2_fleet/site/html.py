"""Parts that pages of a fleet share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final
from urllib.parse import quote

MARKS: Final[Mapping[str, str]] = {
    "agree": "agree",
    "disagree": "disagree",
    "crashed": "disagree",
    "not exported": "disagree",
}


def mark_of(verdict: str) -> str:
    """Return the class of the colour of a verdict."""
    return MARKS.get(verdict, "could")


def link(name: str, page: str) -> str:
    """Return a name, linked to its page if it has one."""
    text = f"<code>{escape(name)}</code>"
    return f'<a href="{quote(page)}">{text}</a>' if page else text


def listed(links: Sequence[str]) -> str:
    """Return how many there are, to unfold."""
    if not links:
        return "0"
    return f"<details><summary>{len(links)}</summary>{'<br>'.join(links)}</details>"


def table(name: str, heads: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table to sort, in a box that scrolls."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    return (
        f'<div class="scroll"><table id="{name}" class="sortable"><thead><tr>{head}</tr></thead><tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def number_cell(value: float, text: str) -> str:
    """Return a cell that sorts by its number."""
    return f'<td class="n" data-v="{value!r}">{text}</td>'
