"""Converters of tensor operators."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "cast",
    "concat_split",
    "copy",
    "elementwise",
    "fill",
    "indexing",
    "math",
    "random_fill",
    "range",
    "reduction",
    "scatter",
    "shape",
    "sorting",
    "statistics",
    "strings",
)
