"""The page of causes: which diagnostics and operators stop how many models, and why models fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from caffe2_fleet.causes import find_blockers, group_by_cause
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.html import link, listed, mark_of, number_cell, table
from caffe2_validation.render.template import fill

NAME: Final = "causes.html"
_TEMPLATE: Final = Path(__file__).with_name("plain.html")
_NONE: Final = '<p class="dim">none</p>'


def causes_page(results: Sequence[ModelResult]) -> str:
    """Return the page, from the results."""
    pages = {result.model: result.page for result in results}
    blockers = list(_blocker_rows(results, pages))
    causes = list(_cause_rows(results))
    body = "\n".join(
        [
            "<h2>What stops exports</h2>",
            '<p class="dim">Errors of exports by code and operator. "alone": models that nothing else stops.</p>',
            table("blockers", ("code", "operator", "models", "alone"), blockers) if blockers else _NONE,
            "<h2>Why models do not agree</h2>",
            table("causes", ("verdict", "cause", "models", "example"), causes) if causes else _NONE,
        ]
    )
    return fill(_TEMPLATE, title="causes", heading="Causes", home="index.html", body=body)


def _blocker_rows(results: Sequence[ModelResult], pages: Mapping[str, str]) -> Iterator[str]:
    for blocker in find_blockers(results):
        lists = (listed([link(name, pages[name]) for name in names]) for names in (blocker.models, blocker.alone))
        counts = (len(blocker.models), len(blocker.alone))
        cells = "".join(number_cell(count, text) for count, text in zip(counts, lists, strict=True))
        yield f"<tr><td><code>{escape(blocker.code)}</code></td><td>{escape(blocker.operator)}</td>{cells}</tr>"


def _cause_rows(results: Sequence[ModelResult]) -> Iterator[str]:
    for (verdict, cause), found in group_by_cause(results).items():
        models = listed([link(result.model, result.page) for result in found])
        yield (
            f'<tr><td class="short {mark_of(verdict)}">{escape(verdict)}</td><td>{escape(cause)}</td>'
            f'{number_cell(len(found), models)}<td class="long">{escape(found[0].reason)}</td></tr>'
        )
