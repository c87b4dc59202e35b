"""Objects as HTML, for a notebook: short tables, and pages that are folded into frames of their own.

Names from models are untrusted: they are escaped, and pages run in frames that reach neither notebook nor network.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final

from caffe2_bridge.diagnostics.diagnostic import Diagnostic
from caffe2_bridge.diagnostics.printable import printable

_LARGEST: Final = 3 << 19  # characters of a page that a notebook stores
_MOST: Final = 100  # rows
_STYLE: Final = "text-align: left; vertical-align: top; overflow-wrap: break-word"


def html_by(function: str, value: object) -> str:
    """Return the HTML that a function, as ``module:name``, makes of a value.

    What shows values stands above the packages that have them. It is imported when a value is shown, by a name that is
    no import: nothing of those packages depends on it.
    """
    module, _, name = function.partition(":")
    shown: str = getattr(import_module(module), name)(value)
    return shown


def escaped(text: Any) -> str:
    """Return a text as HTML; characters that are not printable are escaped."""
    return html.escape(printable(str(text)))


def html_table(title: str, rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """Return a table of texts and numbers under a title."""
    top = f"<thead>{_row(head, 'th')}</thead>" if head else ""
    body = "".join(_row(row, "td") for row in rows)
    return f"<p><b>{escaped(title)}</b></p><table>{top}<tbody>{body}</tbody></table>"


def _row(cells: Sequence[Any], tag: str) -> str:
    return f"<tr>{''.join(_cell(cell, tag) for cell in cells)}</tr>"


def _cell(cell: Any, tag: str) -> str:
    return f'<{tag} style="{_STYLE}">{escaped(cell)}</{tag}>'


def findings_html(findings: Sequence[Diagnostic]) -> str:
    """Return a table of diagnostics with their hints, the first of many; empty if there are none."""
    rows = [(each.severity, each.code, each.location, each.reason, each.hint) for each in findings[:_MOST]]
    if not rows:
        return ""
    more = f", the first {_MOST}" if len(findings) > _MOST else ""
    return html_table(f"{len(findings)} diagnostics{more}", rows, ("severity", "code", "operator", "reason", "hint"))


def folded_page(label: str, page: str, otherwise: str) -> str:
    """Return a whole page of HTML to unfold; if it is empty, or large, the text ``otherwise``: how to see it.

    The page runs its own scripts in a frame without an origin: it has no access to the notebook.
    """
    if not 0 < len(page) <= _LARGEST:
        return f"<p>{escaped(label)}: {escaped(otherwise)}</p>"
    return (
        f"<details><summary>{escaped(label)}</summary>"
        f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(page)}" title="{escaped(label)}" '
        'loading="lazy" style="width: 100%; height: 36rem; border: 0"></iframe></details>'
    )
