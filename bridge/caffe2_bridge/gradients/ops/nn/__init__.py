"""Gradient makers of neural-network layers and losses."""

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.ops.nn import (
    activation,
    convolution,
    linear,
    loss,
    normalization,
    pooling,
)

FAMILIES: tuple[Family, ...] = (
    activation.family,
    convolution.family,
    linear.family,
    loss.family,
    normalization.family,
    pooling.family,
)
