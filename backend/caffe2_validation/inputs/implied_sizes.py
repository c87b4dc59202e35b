"""Sizes of images that a net's weights and constant shapes imply, the likeliest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

import numpy as np

from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_validation.inputs.side_inference import SideInference
from caffe2_validation.inputs.specs import FRAMES, IMAGE

_MOST: Final = 4
# The batch of the inference; sizes of further cases differ from it.
_BATCH: Final = 2
# Numbers of frames of videos, the likeliest first.
_FRAMES: Final = tuple(dict.fromkeys((FRAMES, 16, 32, 4, *range(1, 17), 64)))


@dataclass(frozen=True)
class ImpliedSizes:
    """Heights and widths that a net admits, the likeliest first, and the batch that a Reshape fixes, if one does.

    ``images`` is empty if nothing restricts them; ``frames`` are those of videos with which the net admits them.
    """

    images: tuple[tuple[int, int], ...] = ()
    batch: int | None = None
    frames: int = FRAMES


def implied_sizes(model: Model, usual: Sequence[int] = ()) -> ImpliedSizes:
    """Infer the sizes of images that a net admits.

    Args:
        model: the net. Operators on blobs of unknown shape exclude nothing.
        usual: sides to prefer, the likeliest first.
    """
    for batch in _batches(model):
        frames, found = _infer(model, batch or _BATCH)
        if _restricts(found):
            images = _ordered(found, [IMAGE, *usual])
            if images:
                return ImpliedSizes(images, batch, frames)
    return ImpliedSizes()


def _infer(model: Model, batch: int) -> tuple[int, SideInference]:
    """Return the inference with the likeliest number of frames that admits an image; the default one if none does."""
    first = SideInference(model, batch)
    if first.has_videos and not first.possible.any():
        for frames in _FRAMES[1:]:
            found = SideInference(model, batch, frames)
            if found.possible.any():
                return frames, found
    return FRAMES, first


def _batches(model: Model) -> list[int | None]:
    """Return the first dims of Reshapes to constants, which may be the batch; None for any batch."""
    found: dict[int | None, None] = {}
    for op in NetView(model.predict_net).ops:
        shape = op.args.integers("shape", default=()) if op.type == "Reshape" else ()
        if len(shape) > 1 and min(shape) > 0:
            found[shape[0]] = None
    return [*found, None]


def _restricts(found: SideInference) -> bool:
    """Whether the default size, or a larger one, is excluded; a net that excludes small images only is free."""
    return not (found.possible[IMAGE - 1 :, IMAGE - 1 :].all() and found.preferred.all())


def _ordered(found: SideInference, usual: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the likeliest sizes: squares and usual sides first, then multiples of powers of two, then small ones."""
    both = found.possible & found.preferred
    pairs = [(int(height) + 1, int(width) + 1) for height, width in np.argwhere(both if both.any() else found.possible)]
    squares = [height for height, width in pairs if height == width]
    if squares:
        order = {side: index for index, side in reversed(list(enumerate(usual)))}
        squares.sort(key=lambda side: (order.get(side, len(order)), -gcd(side, 32), side))
        return tuple((side, side) for side in squares[:_MOST])
    pairs.sort(key=lambda pair: (-gcd(*pair, 32), max(pair) / min(pair), pair))
    return tuple(pairs[:_MOST])
