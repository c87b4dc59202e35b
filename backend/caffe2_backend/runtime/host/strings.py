"""Parts of strings: StringPrefix and StringSuffix cut between bytes, which leaves no UTF-8 text for onnxruntime."""

from __future__ import annotations

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import string_bytes

family = HostFamily("strings")


@family.runs("StringPrefix", "StringSuffix")
def part(op: HostOp) -> None:
    """StringPrefix | StringSuffix(X; length=3) -> Y: the first or last bytes of each string."""
    array, length = op.array(0, object), op.args.integer("length", default=3)
    if length < 0:
        raise op.error(f"length must not be negative, not {length}")
    first = op.type == "StringPrefix"
    found = np.empty(array.size, object)
    found[:] = [
        text[:length] if first else text[max(len(text) - length, 0) :] for text in string_bytes(array).reshape(-1)
    ]
    op.set(0, found.reshape(array.shape))
