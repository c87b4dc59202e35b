"""One node of every operator whose meaning changed between opsets, as it was written in each of them."""

from __future__ import annotations

from collections.abc import Iterator

from support.opset_cases import broadcast, elementwise, experimental, images, lists, others, shapes, softmax
from support.opset_cases.spelling import Spelling

__all__ = ["Spelling", "spellings"]


def spellings() -> Iterator[Spelling]:
    """Yield every spelling of every operator."""
    for module in (softmax, broadcast, elementwise, shapes, lists, images, others, experimental):
        yield from module.spellings()
