"""Converters of neural-network layers, losses and metrics."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "activation",
    "convolution",
    "distance",
    "hierarchical_softmax",
    "image",
    "linear",
    "loss",
    "metric",
    "normalization",
    "pooling",
    "ranking_loss",
)
