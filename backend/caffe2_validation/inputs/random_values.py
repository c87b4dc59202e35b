"""Random values of inputs by dtype, shape and role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.values import Array
from caffe2_validation.roles import Role

_WORDS: Final = ("a", "net", "of", "words", "")
_HIGHEST: Final = 3
# Height and width of anchors, relative to the image.
_ANCHOR: Final = (0.1, 0.4)
_SMALLEST_BOX: Final = 0.1


@dataclass(frozen=True)
class Scene:
    """Context of random values: steps of sequences, height and width of images, and the shapes of other inputs."""

    steps: int
    image: int
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def draw(dtype: np.dtype[Any], shape: tuple[int, ...], role: Role, random: np.random.Generator, scene: Scene) -> Array:
    """Draw values of a dtype (object for strings), a shape and a role."""
    if dtype.kind == "O":
        texts = np.empty(prod(shape), object)
        texts[:] = random.choice(_WORDS, texts.size).tolist()
        return texts.reshape(shape)
    if role.kind is not None and shape:
        return _KINDS[role.kind](shape, role, random, scene).astype(dtype)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    return _integers(dtype, shape, role, random, scene).astype(dtype)


def _integers(
    dtype: np.dtype[Any], shape: tuple[int, ...], role: Role, random: np.random.Generator, scene: Scene
) -> Array:
    if role.parts:
        return _parts(shape, (*scene.shapes.get(role.parts, ()), 0)[0], random)
    if role.steps:
        lengths = random.integers(1, scene.steps + 1, shape)
        if lengths.size:
            lengths.flat[0] = scene.steps  # one row is as long as the sequence
        return lengths
    if role.below is not None:
        return random.integers(0, max(role.below, 1), shape)
    return random.integers(0, 256 if dtype == np.uint8 else _HIGHEST, shape)


def _parts(shape: tuple[int, ...], total: int, random: np.random.Generator) -> Array:
    """Return random lengths that add up to ``total``."""
    count = prod(shape)
    if not count:
        return np.zeros(shape, np.int64)
    cuts = np.sort(random.integers(0, total + 1, count - 1))
    return np.diff(np.concatenate([[0], cuts, [total]])).reshape(shape)


def _image_info(shape: tuple[int, ...], _role: Role, _random: np.random.Generator, scene: Scene) -> Array:
    """Return height, width and scale of each image of the batch, all of full size."""
    rows = np.ones(shape)
    rows[..., :2] = scene.image
    return rows


def _anchors(shape: tuple[int, ...], _role: Role, random: np.random.Generator, scene: Scene) -> Array:
    """Return boxes around the centre of a cell."""
    sides = random.uniform(*_ANCHOR, (*shape[:-1], 2)) * scene.image
    return np.concatenate([-sides / 2, sides / 2], axis=-1).round()


def _boxes(shape: tuple[int, ...], role: Role, random: np.random.Generator, scene: Scene) -> Array:
    """Return boxes x1, y1, x2, y2 within the image; of five columns, the first is the index of the image."""
    cut = scene.shapes.get(role.parts, ())
    extent = cut[2] / role.scale if len(cut) == 4 else float(scene.image)
    corners = np.sort(random.uniform(0, 1, (*shape[:-1], 2, 2)), axis=-2)
    corners[..., 1, :] = np.minimum(corners[..., 1, :] + _SMALLEST_BOX, 1.0)
    corners[..., 0, :] = np.minimum(corners[..., 0, :], corners[..., 1, :] - _SMALLEST_BOX)
    boxes = corners.reshape(*shape[:-1], 4) * (extent - 1)
    if shape[-1] == 4:
        return boxes
    images = (*scene.shapes.get(role.parts, ()), 1)[0]
    return np.concatenate([random.integers(0, images, (*shape[:-1], 1)), boxes], axis=-1)


def _probabilities(shape: tuple[int, ...], _role: Role, random: np.random.Generator, _scene: Scene) -> Array:
    """Return rows that add up to one; single values are between 0 and 1."""
    if len(shape) < 2 or shape[-1] == 1:
        return random.uniform(0.05, 0.95, shape)
    rows = np.exp(random.standard_normal(shape))
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def _positive(shape: tuple[int, ...], _role: Role, random: np.random.Generator, _scene: Scene) -> Array:
    return random.uniform(0.5, 1.5, shape)


_KINDS: Final[Mapping[str, Callable[[tuple[int, ...], Role, np.random.Generator, Scene], Array]]] = {
    "image info": _image_info,
    "anchors": _anchors,
    "boxes": _boxes,
    "probabilities": _probabilities,
    "positive": _positive,
}
