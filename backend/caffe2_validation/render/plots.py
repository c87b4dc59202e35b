"""Plots of a report: errors by depth, and histograms of the differences of a blob, as SVG."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from caffe2_validation.render.template import escape
from caffe2_validation.report import BlobResult

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 260, 46, 26
_LOWEST, _HIGHEST = -12, 4
_SHOWN_BLOBS: Final = 6
_MOST_OUTPUTS: Final = 48


def depth_plot(results: Iterable[BlobResult], colours: Mapping[str, str]) -> str:
    """Return the largest difference of each blob by the number of operators before it; ``colours`` by side."""
    compared = (r for r in results if r.difference.compared)
    return plot([(colours[r.side], r.depth, _height(r), _point_title(r)) for r in compared], "depth")


def _height(result: BlobResult) -> float:
    """Return the error; what disagrees in kind, or in where NaN is, stands at the top."""
    found = result.difference
    return found.max_abs if found.agrees or found.max_abs else math.inf


def _point_title(result: BlobResult) -> str:
    return f"{result.name} ({result.side}, {result.case}): {result.difference.max_abs:.2e}"


def plot(points: Sequence[tuple[str, int, float, str]], what: str) -> str:
    """Plot points by (colour, x, error, title); the error in powers of ten, equal values on the lowest line."""
    last = max((x for _, x, _, _ in points), default=0) or 1

    def across(x: float) -> float:
        return _LEFT + 8 + (x / last) * (_WIDTH - _LEFT - 20)

    def up(power: float) -> float:
        return 8 + (_HIGHEST - power) / (_HIGHEST - _LOWEST) * (_HEIGHT - _BOTTOM - 8)

    parts = []
    for power in range(_LOWEST, _HIGHEST + 1, 4):
        label = "equal" if power == _LOWEST else f"1e{power}"
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{up(power):.1f}" y2="{up(power):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{up(power) + 4:.1f}" text-anchor="end">{label}</text>')
    for x in sorted({0, last // 2, last}):
        parts.append(f'<text x="{across(x):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{x}</text>')  # noqa: PERF401 - as above
    parts.append(f'<text x="{_WIDTH - 4}" y="{_HEIGHT - 32}" text-anchor="end">{escape(what)}</text>')
    for colour, x, error, title in points:
        height = min(max(math.log10(error), _LOWEST), _HIGHEST) if error else _LOWEST
        parts.append(
            f'<g class="{colour}"><circle cx="{across(x):.1f}" cy="{up(height):.1f}" r="4" fill="currentColor" '
            f'fill-opacity=".75"><title>{escape(title)}</title></circle></g>'
        )
    label = f"error by {escape(what)}"
    svg = f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f'<div class="wide">{svg}</div>'


def step_plots(results: Iterable[BlobResult], colours: Mapping[str, str]) -> str:
    """Return the errors of each output that is a sequence along its steps; empty if nothing differs."""
    by_name: dict[str, list[BlobResult]] = defaultdict(list)
    for result in worst_results(result for result in results if result.is_output and len(result.difference.rows) > 1):
        by_name[result.name].append(result)
    return "".join(_step_plot(name, found, colours) for name, found in by_name.items())


def _step_plot(name: str, found: Sequence[BlobResult], colours: Mapping[str, str]) -> str:
    points = []
    for result in found:
        rows, length = result.difference.rows, result.difference.shape[0]
        for i, error in enumerate(rows):
            step = i * length // len(rows)
            points.append((colours[result.side], step, error, f"step {step} ({result.side}): {error:.2e}"))
    return f"<h3><code>{escape(name)}</code></h3>{plot(points, 'step')}"


def worst_results(results: Iterable[BlobResult]) -> list[BlobResult]:
    """Return the results that differ, the furthest off first: one for each output and side, and some other blobs."""
    best: dict[tuple[str, str], BlobResult] = {}
    for result in results:
        known = best.get((result.name, result.side))
        if result.difference.histogram and (known is None or known.difference.max_abs < result.difference.max_abs):
            best[result.name, result.side] = result
    ranked = sorted(best.values(), key=lambda r: (r.difference.agrees, -r.difference.max_abs))
    differing = [result for result in ranked if result.difference.max_abs]
    others = [result for result in differing if not result.is_output]
    return [result for result in differing if result.is_output][:_MOST_OUTPUTS] + others[:_SHOWN_BLOBS]


def histogram(result: BlobResult) -> str:
    """Return the number of elements of a blob by the power of ten of their difference, as a card in HTML."""
    counts = result.difference.histogram
    most, width = max(counts), 240 / len(counts)
    bars = "".join(
        f'<rect x="{i * width:.1f}" y="{70 - 62 * count / most:.1f}" width="{width - 1:.1f}" '
        f'height="{62 * count / most:.1f}" '
        f'fill="currentColor"><title>{count} elements around {"0" if not i else f"1e{i - 20}"}</title></rect>'
        for i, count in enumerate(counts)
        if count
    )
    ticks = "".join(
        f'<text x="{(power + 20.5) * width:.0f}" y="84" text-anchor="middle">1e{power}</text>'
        for power in (-15, -10, -5, 0)
    )
    head = (
        f"<code>{escape(result.name)}</code><br><span class='dim'>{escape(result.side)}, {escape(result.case)}</span>"
    )
    svg = f'<svg class="s0" viewBox="0 0 240 88" role="img" aria-label="histogram">{bars}{ticks}</svg>'
    return f'<div class="card">{head}{svg}</div>'
