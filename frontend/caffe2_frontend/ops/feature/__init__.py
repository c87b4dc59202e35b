"""Converters of feature-processing operators."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.feature import (
    calibration,
    encoding,
    histogram,
    merge,
    samples,
    sparse,
    tensor_train,
)

FAMILIES: tuple[Family, ...] = (
    calibration.family,
    encoding.family,
    histogram.family,
    merge.family,
    samples.family,
    sparse.family,
    tensor_train.family,
)
