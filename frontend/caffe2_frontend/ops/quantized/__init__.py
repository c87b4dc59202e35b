"""Converters of Int8 and row-wise quantized operators."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.quantized import (
    int8,
    int8_activation,
    int8_product,
    int8_roi_align,
    random_rowwise,
    rowwise,
    sparse_lengths_rowwise,
)

FAMILIES: tuple[Family, ...] = (
    int8.family,
    int8_activation.family,
    int8_product.family,
    int8_roi_align.family,
    random_rowwise.family,
    rowwise.family,
    sparse_lengths_rowwise.family,
)
