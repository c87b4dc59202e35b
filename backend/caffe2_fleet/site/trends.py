"""The page of trends: what changed between two runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.storage import AnyPath, is_url, read_file
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.html import link, mark_of, number_cell, table
from caffe2_fleet.trends import Trends, compare_runs
from caffe2_frontend.interop.files.onnx_files import replacing
from caffe2_validation.render.template import fill

NAME: Final = "trends.html"
_TEMPLATE: Final = Path(__file__).with_name("plain.html")


def read_summary(path: AnyPath) -> dict[str, Any]:
    """Read ``summary.json``, or that of a batch's folder. Raises NetFormatError, OSError."""
    file = path / "summary.json" if path.is_dir() else path
    try:
        data: dict[str, Any] = json.loads(read_file(file))
        data["models"] = [ModelResult(**model) for model in data["models"]]
    except (ValueError, TypeError, KeyError) as error:
        raise NetFormatError(f"the file is not the summary of a batch: {error}", str(file)) from None
    return data | {"folder": str(file.parent)}


def write_trends(old: dict[str, Any], new: dict[str, Any], target: AnyPath) -> Trends:
    """Compare two summaries, and write the page; it links to the pages of the new run. Raises OSError."""
    trends = compare_runs(old["models"], new["models"])
    base = _base(new["folder"], target)
    with replacing(target) as file:
        file.write(trends_page(trends, _versions(old, new), base).encode())
    return trends


def _base(folder: str, page: AnyPath) -> str:
    """Return the address of a folder in a page, with a slash at its end; empty for the page's own folder."""
    if folder == str(page.parent):
        return ""
    if isinstance(page, Path) and not is_url(folder):
        home = Path(os.path.relpath(folder, page.parent)).as_posix()
        return "" if home == "." else f"{home}/"
    return f"{folder if is_url(folder) else Path(folder).resolve().as_uri()}/"


def trends_page(trends: Trends, versions: Sequence[tuple[str, str, str]] = (), base: str = "") -> str:
    """Return the page of trends; ``base`` is the address of the new run's folder, with a slash at its end."""
    parts = [
        "<h2>Counts</h2>",
        table("counts", ("verdict", "before", "after"), _count_rows(trends)),
        *_changes("worse", "Worse", trends.worse, base),
        *_changes("better", "Better, or other", trends.better, base),
        *_changes("drifted", "Differences that grew more than tenfold", trends.drifted, base),
        *_models("added", "New models", trends.added, base),
        *_models("gone", "Models that are gone", trends.gone, None),
    ]
    if trends.causes:
        rows = (
            f'<tr><td class="short {mark_of(verdict)}">{escape(verdict)}</td><td>{escape(cause)}</td>'
            f"{number_cell(before, str(before))}{number_cell(after, str(after))}</tr>"
            for (verdict, cause), (before, after) in trends.causes.items()
        )
        parts += ["<h2>Causes</h2>", table("causes", ("verdict", "cause", "before", "after"), rows)]
    if versions:
        lines = (f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in versions)
        parts += ["<h2>Versions</h2>", table("versions", ("package", "before", "after"), lines)]
    return fill(
        _TEMPLATE, title="trends", heading=escape(trends.describe()), home=escape(f"{base}index.html"),
        body="\n".join(parts),
    )  # fmt: skip


def _count_rows(trends: Trends) -> Iterator[str]:
    for verdict, (before, after) in trends.counts.items():
        cells = number_cell(before, str(before)) + number_cell(after, str(after))
        yield f'<tr><td class="short {mark_of(verdict)}">{escape(verdict)}</td>{cells}</tr>'


def _changes(name: str, title: str, pairs: Sequence[tuple[ModelResult, ModelResult]], base: str) -> Iterator[str]:
    if not pairs:
        return
    rows = (
        f'<tr><td class="name">{_link(new, base)}</td><td>{escape(old.verdict)}</td>'
        f'<td class="short {mark_of(new.verdict)}">{escape(new.verdict)}</td>'
        f"{number_cell(old.worst, f'{old.worst:.1e}')}{number_cell(new.worst, f'{new.worst:.1e}')}"
        f'<td class="long">{escape(new.reason or old.reason)}</td></tr>'
        for old, new in pairs
    )
    yield f"<h2>{title} ({len(pairs)})</h2>"
    yield table(name, ("model", "before", "after", "max abs before", "max abs after", "reason"), rows)


def _models(name: str, title: str, models: Sequence[ModelResult], base: str | None) -> Iterator[str]:
    if not models:
        return
    rows = (
        f'<tr><td class="name">{_link(model, base)}</td>'
        f'<td class="short {mark_of(model.verdict)}">{escape(model.verdict)}</td></tr>'
        for model in models
    )
    yield f"<h2>{title} ({len(models)})</h2>"
    yield table(name, ("model", "verdict"), rows)


def _link(model: ModelResult, base: str | None) -> str:
    return link(model.model, "" if base is None or not model.page else base + model.page)


def _versions(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the packages whose versions differ."""
    before, after = old.get("versions", {}), new.get("versions", {})
    names = sorted({*before, *after})
    return [(n, before.get(n, ""), after.get(n, "")) for n in names if before.get(n) != after.get(n)]
