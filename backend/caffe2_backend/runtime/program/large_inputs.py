"""Large blobs that stay inputs of a converted net: as constants they would be in memory twice.

A constant is faster where onnxruntime reorders it once. A product with few rows takes up to 1.8 times as long without,
one row and lookups as long as with it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from caffe2_backend.runtime.values import Value
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# The bytes of a blob from which on it stays an input.
LARGE: Final = 1 << 25
# Operators whose converters take any value of the blob, and emit the same nodes for an input as for a constant.
_READERS: Final = frozenset({
    "FC", "FCTransposed", "Gather", "MatMul", "SparseLengthsMean", "SparseLengthsSum", "SparseLengthsWeightedSum",
})  # fmt: skip


class LargeInputs:
    """The blobs of a net that such operators alone read."""

    def __init__(self, net: NetDef) -> None:
        self._others = {
            name for op in NetView(net).ops if op.type not in _READERS or op.proto.domain for name in op.inputs
        }
        self._bodies = any(arg.HasField("n") or arg.nets for op in net.op for arg in op.arg)

    def includes(self, name: str, value: Value) -> bool:
        """Whether a blob should stay an input."""
        return isinstance(value, np.ndarray) and value.nbytes >= LARGE and not self._bodies and name not in self._others
