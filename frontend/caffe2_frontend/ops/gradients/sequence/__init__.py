"""Converters of the gradients of recurrent units and of reductions and packing of sequences."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "rnn_unit",
    "segment_reduction",
)
