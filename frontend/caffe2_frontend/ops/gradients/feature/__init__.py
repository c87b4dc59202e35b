"""Converters of the gradients of features and embedding tables."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "merge",
    "sparse",
    "tensor_train",
)
