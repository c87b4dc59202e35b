"""Converters of neural-network layers, losses and metrics."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.nn import (
    activation,
    convolution,
    distance,
    hierarchical_softmax,
    image,
    linear,
    loss,
    metric,
    normalization,
    pooling,
    ranking_loss,
)

FAMILIES: tuple[Family, ...] = (
    activation.family,
    convolution.family,
    distance.family,
    hierarchical_softmax.family,
    image.family,
    linear.family,
    loss.family,
    metric.family,
    normalization.family,
    pooling.family,
    ranking_loss.family,
)
