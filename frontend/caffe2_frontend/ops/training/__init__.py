"""Converters of optimizers and learning-rate schedules."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.training import (
    fused_sparse_adagrad,
    learning_rate,
    optimizer,
    sparse_optimizer,
    yellowfin,
)

FAMILIES: tuple[Family, ...] = (
    fused_sparse_adagrad.family,
    learning_rate.family,
    optimizer.family,
    sparse_optimizer.family,
    yellowfin.family,
)
