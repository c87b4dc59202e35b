"""Importers of tensor operators."""

from caffe2_backend.lowering.family import Family
from caffe2_backend.ops.tensor import (
    bits,
    einsum,
    elementwise,
    fourier,
    indexing,
    normalization,
    random,
    reduction,
    scatter,
    shape,
    slice_pad,
    sorting,
    strings,
)

FAMILIES: tuple[Family, ...] = (
    bits.family,
    einsum.family,
    elementwise.family,
    fourier.family,
    indexing.family,
    normalization.family,
    random.family,
    reduction.family,
    scatter.family,
    shape.family,
    slice_pad.family,
    sorting.family,
    strings.family,
)
