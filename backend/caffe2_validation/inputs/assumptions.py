"""Assumptions of a synthesis: what is known or assumed of a net's inputs before its operators run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from caffe2_bridge.netdef.parameters import Array, Int8Tensor
from caffe2_validation.inputs.specs import FRAMES, IMAGE
from caffe2_validation.sizes import Size

Value: TypeAlias = Array | Int8Tensor
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Assumptions:
    """What is known or assumed of a net's inputs.

    Attributes:
        given: blobs that have a value already.
        dtypes: of inputs; float32 if unknown.
        shapes: of inputs, as far as they are known.
        ranks: of other inputs, as far as they are known.
        dims: sizes that the caller gives of inputs with open dims, None for an open one.
        size: steps and batch.
        fixes_batch: whether the net runs with the batch of ``size`` alone.
        image: height of images, and their width if ``image_width`` is None.
        image_width: width of images.
        frames: frames of videos.
        rank: of inputs whose rank is unknown.
        rows: rows of weights by name, if later operators depend on them in a way that cannot be inferred.
        width: channels and features of weights if no operator asks for a number.
        seed: of all random values.
    """

    given: Mapping[str, Value] = field(default_factory=dict, repr=False)
    dtypes: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    dims: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    size: Size = Size(1, 2, 4)  # noqa: RUF009 - frozen
    fixes_batch: bool = False
    image: int = IMAGE
    image_width: int | None = None
    frames: int = FRAMES
    rank: int = 1
    rows: Mapping[str, int] = field(default_factory=dict)
    width: int = 16
    seed: int = 2018

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of images."""
        return self.image, self.image if self.image_width is None else self.image_width

    def with_given_dims(self, name: str, shape: Shape) -> Shape:
        """Return the shape that an operator suggests for an input, with the sizes that the caller gives."""
        given = self.dims.get(name, ())
        if len(given) != len(shape):
            return shape
        return tuple(size if dim is None else dim for dim, size in zip(given, shape, strict=True))
