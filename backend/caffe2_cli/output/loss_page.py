"""The loss curve of a training run: a page of HTML, and a line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from caffe2_backend.training.checkpoint import Checkpoint
from caffe2_bridge.storage import AnyPath
from caffe2_frontend.interop.files.onnx_files import replacing
from caffe2_validation.render.template import escape, fill

_TEMPLATE: Final = Path(__file__).with_name("loss.html")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 260, 70, 26
_POINTS: Final = 700  # a curve of more steps is drawn by averages
_ROWS: Final = 50
_BARS: Final = "▁▂▃▄▅▆▇█"


def write_loss_page(path: AnyPath, checkpoint: Checkpoint, model: str, command: str) -> None:
    """Write the page; an existing file is replaced once the new one is complete. Raises OSError."""
    losses = checkpoint.losses
    every = max(1, math.ceil(len(losses) / _ROWS))
    shown = [i for i in range(len(losses)) if i % every == 0 or i == len(losses) - 1]
    text = fill(
        _TEMPLATE,
        model=escape(model),
        loss=escape(checkpoint.loss),
        summary=escape(f"{len(losses)} steps; {checkpoint.loss} from {losses[0]:.6g} to {losses[-1]:.6g}"),
        curve=curve(losses),
        rows="\n".join(f'<tr><td class="n">{i + 1}</td><td class="n">{losses[i]:.6g}</td></tr>' for i in shown),
        command=escape(command),
    )
    with replacing(path) as file:
        file.write(text.encode())


def curve(losses: Sequence[float]) -> str:
    """Return the losses by step as SVG; steps whose loss is not finite are left out."""
    points = [(x, y) for x, y in averages(losses, _POINTS) if math.isfinite(y)]
    low, high = min((y for _, y in points), default=0.0), max((y for _, y in points), default=1.0)
    span = high - low or 1.0
    last = max(len(losses) - 1, 1)

    def across(x: float) -> float:
        return _LEFT + 8 + x / last * (_WIDTH - _LEFT - 20)

    def up(y: float) -> float:
        return 8 + (high - y) / span * (_HEIGHT - _BOTTOM - 16)

    parts = []
    for value in (low, low + span / 2, high if high > low else low + span):
        height = up(value)
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    parts += [
        f'<text x="{across(x):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{x + 1}</text>'
        for x in sorted({0, (len(losses) - 1) // 2, len(losses) - 1})
    ]
    line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.5"/>')
    svg = f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="loss by step">'
    return f'<div class="wide s0">{svg}{"".join(parts)}</svg></div>'


def averages(losses: Sequence[float], most: int) -> list[tuple[float, float]]:
    """Return at most ``most`` points (step from 0, loss): averages of equally many consecutive steps."""
    size = max(1, math.ceil(len(losses) / most))
    groups = [range(start, min(start + size, len(losses))) for start in range(0, len(losses), size)]
    return [(sum(group) / len(group), sum(losses[i] for i in group) / len(group)) for group in groups]


def sparkline(losses: Sequence[float], width: int = 60) -> str:
    """Return the losses as a line of bars; ``?`` where a loss is not finite."""
    values = [y for _, y in averages(losses, width)]
    finite = [value for value in values if math.isfinite(value)]
    low, span = min(finite, default=0.0), (max(finite, default=0.0) - min(finite, default=0.0)) or 1.0
    top = len(_BARS) - 1
    return "".join(_BARS[round((v - low) / span * top)] if math.isfinite(v) else "?" for v in values)
