"""Write docs/deviations.md from the domain of operators and the tables of deviations: ``scripts/fuzz deviations``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click
from conformance.deviations import DEVIATIONS as RECORDED
from support.paths import ROOT

from fuzz.exact.deviations import DEVIATIONS
from fuzz.exact.drawing.domain import AS_RECORDED, GO_TOGETHER, ORDINARY, PRECONDITIONS
from fuzz.exact.imports import NO_PIXELS, NOT_AS_DEFINED, NOT_DEFINED, NOT_JOINED, ROUNDED_SUMS, STRICTER

TARGET: Final = ROOT / "docs" / "deviations.md"
_INTRODUCTION: Final = """\
# Known deviations

`scripts/fuzz exact` compares exported models with real Caffe2 inside of the domain of each operator: what Caffe2
documents or checks of its operands. A difference there is mended, unless Caffe2's own results differ as much for inputs
a rounding apart, or a fault of Caffe2 or onnxruntime is known, as listed here. Outside of the domain one promise holds:
a call returns, or raises an error of the project. `scripts/fuzz deviations` writes this page; `--check` compares it.
"""
_IMPORTS: Final = (NO_PIXELS, NOT_JOINED, NOT_DEFINED, NOT_AS_DEFINED, STRICTER, ROUNDED_SUMS)


def render() -> str:
    """Return the page."""
    sections = {
        "Faults of Caffe2": [f"{each.reason}{_shown(each.types)}" for each in DEVIATIONS],
        "Recorded cases": [
            f"{reason} ({', '.join(f'`{case}`' for case, (_, why) in RECORDED.items() if why == reason)})"
            for reason in dict.fromkeys(why for _, why in RECORDED.values())
        ],
        "Imported and edited models, on onnxruntime": _IMPORTS,
        "The domain": [
            ORDINARY,
            f"{GO_TOGETHER}{_shown(AS_RECORDED)}, of gradients too, but of elementwise ones",
            *(f"{each.says}{_shown(each.types)}" for each in PRECONDITIONS),
        ],
    }
    lines = [f"## {title}\n\n" + "".join(f"* {text}\n" for text in texts) for title, texts in sections.items()]
    return "\n".join((_INTRODUCTION, *lines))


def _shown(types: Iterable[str]) -> str:
    names = [f"`{name.replace('~', ' ')}`" for name in sorted(types)]
    return f" ({', '.join(names[:4])}{f' and {len(names) - 4} more' * (len(names) > 4)})" * bool(names)


@click.command("deviations")
@click.option("--check", is_flag=True, help="Compare the page instead of writing it.")
def main(*, check: bool) -> None:
    """Write docs/deviations.md from the domain of operators and the tables of known deviations."""
    if not check:
        TARGET.write_text(render(), encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != render():
        msg = f"{TARGET} is out of date: run scripts/fuzz deviations"
        raise click.ClickException(msg)
