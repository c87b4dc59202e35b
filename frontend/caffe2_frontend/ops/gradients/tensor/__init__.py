"""Converters of the gradients of tensor operators."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients.tensor import elementwise, math, reduction

FAMILIES: tuple[Family, ...] = (elementwise.family, math.family, reduction.family)
