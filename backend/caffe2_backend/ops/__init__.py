"""The table of contents: one family of converters a file."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_backend import control
from caffe2_backend.family import Converter, Family, merge
from caffe2_backend.ops import (
    activation,
    bits,
    convolution,
    einsum,
    elementwise,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    ranking,
    reduction,
    resize,
    sampling,
    scattering,
    shape,
    signal,
    slicing,
)
from caffe2_backend.recurrent import cells, scan

FAMILIES: tuple[Family, ...] = (
    activation.family,
    bits.family,
    cells.family,
    control.family,
    convolution.family,
    einsum.family,
    elementwise.family,
    indexing.family,
    linear.family,
    normalization.family,
    pooling.family,
    quantization.family,
    ranking.family,
    reduction.family,
    resize.family,
    sampling.family,
    scan.family,
    scattering.family,
    shape.family,
    signal.family,
    slicing.family,
)

_CONVERTERS = merge(FAMILIES)


def converters() -> Mapping[str, Converter]:
    """Every covered operator type with its converter."""
    return _CONVERTERS
