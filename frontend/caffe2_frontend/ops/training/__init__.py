"""Converters of optimizers and learning-rate schedules."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "fused_sparse_adagrad",
    "learning_rate",
    "optimizer",
    "sparse_optimizer",
    "yellowfin",
)
