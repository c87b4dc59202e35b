"""Operators that go on from what is in their output: Iter in its old form, without an input, and Accumulate."""

from __future__ import annotations

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import DeviceTensor, to_host

family = HostFamily("iterations")


@family.runs("Iter")
def count_iterations(op: HostOp) -> None:
    """Iter() -> iter: the blob plus 1, int64 [1]; 1 if it has no count yet."""
    with op.updating():
        before = op.find(op.outputs[0])
        if isinstance(before, np.ndarray) and before.dtype == np.int64:
            op.set(0, before + 1)
        else:
            op.set(0, np.ones(1, np.int64))


@family.runs("Accumulate")
def accumulate(op: HostOp) -> None:
    """Accumulate(X; gamma=1.0) -> Y: X (float) plus gamma times the first elements of the blob; X if it has fewer.

    Caffe2 adds what is in the memory of an output that has no value, or fewer elements.
    """
    x, gamma = op.array(0, np.float32), np.float32(op.args.number("gamma", default=1.0))
    with op.updating():
        found = op.find(op.outputs[0])
        before = to_host(found) if isinstance(found, np.ndarray | DeviceTensor) else None
        if before is None or before.dtype != np.float32 or before.size < x.size:
            op.set(0, x.copy())
        else:
            op.set(0, x + gamma * before.reshape(-1)[: x.size].reshape(x.shape))
