"""Write docs/deviations.md from the tables of deviations: ``scripts/fuzz deviations``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import click
from support.paths import ROOT

from fuzz.exact.deviations.deviation import Deviation
from fuzz.exact.deviations.of_aten import ATEN
from fuzz.exact.deviations.of_floats import FLOATS
from fuzz.exact.deviations.of_images import IMAGES
from fuzz.exact.deviations.of_nothing import NOTHING
from fuzz.exact.deviations.of_operands import OPERANDS
from fuzz.exact.deviations.table import ABSORBS, GENERAL
from fuzz.exact.imports import NO_PIXELS, NOT_AS_DEFINED, NOT_DEFINED, NOT_JOINED, ROUNDED_SUMS, STRICTER

TARGET: Final = ROOT / "docs" / "deviations.md"
_INTRODUCTION: Final = """\
# Known deviations

Inputs on which an exported model may differ from real Caffe2, with the reason. They are outside of what Caffe2
documents or checks, or a matter of rounding. `scripts/fuzz exact` does not count them; `scripts/fuzz deviations` writes
this page.
"""
_SECTIONS: Final = {
    "Elements": FLOATS,
    "Images and boxes": IMAGES,
    "No elements": NOTHING,
    "Operands that contradict each other": OPERANDS,
    "ATen": ATEN,
    "Operators of any type": GENERAL,
}
_IMPORTS: Final = (NO_PIXELS, NOT_JOINED, NOT_DEFINED, NOT_AS_DEFINED, STRICTER, ROUNDED_SUMS)


def render() -> str:
    """Return the page."""
    lines = [_INTRODUCTION]
    for title, deviations in _SECTIONS.items():
        lines += [f"## {title}", "", *_entries(deviations)]
        lines += [f"* {ABSORBS}"] * (deviations is GENERAL)
        lines.append("")
    lines += ["## Imported and edited models", "", *(f"* {reason}" for reason in _IMPORTS)]
    return "\n".join(lines) + "\n"


def _entries(deviations: Iterable[Deviation]) -> Iterator[str]:
    for reason in dict.fromkeys(each.reason for each in deviations):
        types = sorted(set().union(*(each.types for each in deviations if each.reason == reason)))
        shown = ", ".join(f"`{kind}`" for kind in types[:4]) + f" and {len(types) - 4} more" * (len(types) > 4)
        yield f"* {reason}" + f" ({shown})" * bool(types)


@click.command("deviations")
def main() -> None:
    """Write docs/deviations.md from the tables of known deviations."""
    TARGET.write_text(render(), encoding="utf-8")
