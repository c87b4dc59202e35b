"""Converters of tensor operators."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.tensor import (
    cast,
    concat_split,
    elementwise,
    fill,
    indexing,
    math,
    random_fill,
    reduction,
    scatter,
    shape,
    sorting,
    statistics,
    strings,
)
from caffe2_frontend.ops.tensor import copy as copy_ops
from caffe2_frontend.ops.tensor import range as range_ops

FAMILIES: tuple[Family, ...] = (
    cast.family,
    concat_split.family,
    copy_ops.family,
    elementwise.family,
    fill.family,
    indexing.family,
    math.family,
    random_fill.family,
    range_ops.family,
    reduction.family,
    scatter.family,
    shape.family,
    sorting.family,
    statistics.family,
    strings.family,
)
