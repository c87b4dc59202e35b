"""Importers of neural-network operators."""

from caffe2_backend.lowering.family import Family
from caffe2_backend.ops.nn import (
    activation,
    class_maps,
    convolution,
    detection,
    linear,
    normalization,
    pooling,
    quantization,
    resize,
    sampling,
)

FAMILIES: tuple[Family, ...] = (
    activation.family,
    class_maps.family,
    convolution.family,
    detection.family,
    linear.family,
    normalization.family,
    pooling.family,
    quantization.family,
    resize.family,
    sampling.family,
)
