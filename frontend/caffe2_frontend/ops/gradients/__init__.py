"""Converters of gradient operators, in families that mirror the forward ones."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients import feature, nn, sequence, tensor

FAMILIES: tuple[Family, ...] = (
    *feature.FAMILIES,
    *nn.FAMILIES,
    *sequence.FAMILIES,
    *tensor.FAMILIES,
)
