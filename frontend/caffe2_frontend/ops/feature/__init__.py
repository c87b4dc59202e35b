"""Converters of feature-processing operators."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "calibration",
    "encoding",
    "histogram",
    "indices",
    "merge",
    "samples",
    "sparse",
    "tensor_train",
)
