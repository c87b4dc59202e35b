"""Converters of the gradients of tensor operators."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "elementwise",
    "indexing",
    "math",
    "reduction",
    "shape",
    "sorting",
    "statistics",
)
