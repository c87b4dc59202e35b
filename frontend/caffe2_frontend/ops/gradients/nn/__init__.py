"""Converters of the gradients of neural-network layers, losses and regions."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients.nn import (
    activation,
    convolution,
    deformable,
    distance,
    hierarchical_softmax,
    image,
    linear,
    local_convolution,
    loss,
    normalization,
    pooling,
    ranking_loss,
    regions,
    softmax,
)

FAMILIES: tuple[Family, ...] = (
    activation.family,
    convolution.family,
    deformable.family,
    distance.family,
    hierarchical_softmax.family,
    image.family,
    linear.family,
    local_convolution.family,
    loss.family,
    normalization.family,
    pooling.family,
    ranking_loss.family,
    regions.family,
    softmax.family,
)
