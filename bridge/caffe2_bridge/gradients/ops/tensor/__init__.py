"""Gradient makers of tensor operators."""

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.ops.tensor import (
    constant,
    elementwise,
    indexing,
    math,
    python,
    quantization,
    reduction,
    shape,
)
from caffe2_bridge.gradients.ops.tensor import copy as copy_ops

FAMILIES: tuple[Family, ...] = (
    constant.family,
    copy_ops.family,
    elementwise.family,
    indexing.family,
    math.family,
    python.family,
    quantization.family,
    reduction.family,
    shape.family,
)
