"""Converters of the gradients of neural-network layers, losses and regions."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients.nn import activation, distance, linear, loss, normalization, softmax

FAMILIES: tuple[Family, ...] = (
    activation.family,
    distance.family,
    linear.family,
    loss.family,
    normalization.family,
    softmax.family,
)
