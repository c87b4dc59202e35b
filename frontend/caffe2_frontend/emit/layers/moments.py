"""Mean, variance and inverse standard deviation along axes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from caffe2_frontend.emit.arithmetic import add, sqrt, square, sub
from caffe2_frontend.lowering.op import Op, Value


def moments(op: Op, x: Value, axes: Iterable[int], *, keepdims: bool = True) -> tuple[Value, Value]:
    """Return the mean and the biased variance of ``x`` along ``axes``, which stay as dims of one with ``keepdims``."""
    along = op.const(list(axes), np.int64)
    mean = op.emit("ReduceMean", x, along)
    var = op.emit("ReduceMean", square(op, sub(op, x, mean)), along, keepdims=None if keepdims else 0)
    return mean if keepdims else op.emit("Squeeze", mean, along), var


def inverse_deviation(op: Op, var: Value, epsilon: float) -> Value:
    """Return ``1 / sqrt(var + epsilon)``."""
    return op.emit("Reciprocal", sqrt(op, add(op, var, epsilon)))
