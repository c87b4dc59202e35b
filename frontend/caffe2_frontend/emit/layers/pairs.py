"""All pairs of the elements of vectors: their differences, and how labels order them."""

from __future__ import annotations

import numpy as np

from caffe2_frontend.emit.arithmetic import binary, sub
from caffe2_frontend.emit.shapes import unsqueeze
from caffe2_frontend.lowering.op import Op, Value


def differences(op: Op, x: Value) -> Value:
    """Return ``x_i - x_j`` for all pairs of elements of the last dim of ``x`` [..., N]; [..., N, N]."""
    return sub(op, unsqueeze(op, x, [-1]), unsqueeze(op, x, [-2]))


def ordered_labels(op: Op, labels: Value) -> tuple[Value, Value]:
    """Return which pairs of labels [..., N] differ by epsilon at least, bool, and the signs of their differences."""
    order = differences(op, labels)
    return binary(op, "GreaterOrEqual", op.emit("Abs", order), float(np.finfo(np.float32).eps)), op.emit("Sign", order)
