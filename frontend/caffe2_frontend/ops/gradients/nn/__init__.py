"""Converters of the gradients of neural-network layers, losses and regions."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "activation",
    "convolution",
    "deformable",
    "distance",
    "hierarchical_softmax",
    "image",
    "linear",
    "local_convolution",
    "loss",
    "normalization",
    "pooling",
    "ranking_loss",
    "regions",
    "softmax",
)
