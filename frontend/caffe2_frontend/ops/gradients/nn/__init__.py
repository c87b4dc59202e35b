"""Converters of the gradients of neural-network layers, losses and regions."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients.nn import activation, linear, softmax

FAMILIES: tuple[Family, ...] = (activation.family, linear.family, softmax.family)
