"""Iter in its old form, without an input: it counts in its output."""

from __future__ import annotations

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import Array

family = HostFamily("iterations")


@family.runs("Iter")
def count_iterations(op: HostOp) -> None:
    """Iter() -> iter: the blob plus 1, int64 [1]; 1 if it has no count yet."""
    before = op.find(op.outputs[0])
    counted: Array = before + 1 if isinstance(before, np.ndarray) and before.dtype == np.int64 else np.ones(1, np.int64)
    op.set(0, counted)
