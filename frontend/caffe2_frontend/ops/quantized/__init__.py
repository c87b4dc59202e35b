"""Converters of Int8 and row-wise quantized operators."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "int8",
    "int8_activation",
    "int8_product",
    "int8_roi_align",
    "random_rowwise",
    "rowwise",
    "sparse_lengths_rowwise",
)
