"""Converters of the gradients of tensor operators."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients.tensor import elementwise, indexing, math, reduction, shape, sorting, statistics

FAMILIES: tuple[Family, ...] = (
    elementwise.family,
    indexing.family,
    math.family,
    reduction.family,
    shape.family,
    sorting.family,
    statistics.family,
)
