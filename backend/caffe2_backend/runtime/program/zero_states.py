"""States of optimizers that a program feeds as zeros of another element type, such as ``np.zeros(n)``.

Real Caffe2's operators ask for the memory of their state as floats before they read it: it is retyped where it is, and
zeros stay zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_backend.runtime.values import Value
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# The operators that do so, and the indices of their states.
_STATES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType({
    "Adadelta": (1, 2), "Adagrad": (1,), "Adam": (1, 2), "Ftrl": (1,), "MomentumSGDUpdate": (1,),
    "RowWiseSparseAdagrad": (1,), "SparseAdagrad": (1,), "SparseFtrl": (1,), "Wngrad": (1,),
})  # fmt: skip
# Those that are at least as large as the floats that take their memory.
_DTYPES: Final = frozenset(map(np.dtype, (np.int32, np.int64, np.float64)))


def zero_states(net: NetDef) -> frozenset[str]:
    """Return the inputs of a net that its optimizers retype if they are zeros."""
    found: set[str] = set()
    written: set[str] = set()
    for op in NetView(net).ops:
        indices = _STATES.get(op.type, ()) if not op.proto.domain else ()
        found.update(op.inputs[i] for i in indices if i < len(op.inputs) and op.inputs[i] not in written)
        written.update(op.outputs)
    return frozenset(found)


def retype_zeros(given: Mapping[str, Value], names: Collection[str]) -> Mapping[str, Value]:
    """Return the inputs of a run, with zeros of other element types among these states as floats."""
    found = {
        name: np.zeros(value.shape, np.float32)
        for name in names
        if isinstance(value := given.get(name), np.ndarray) and value.dtype in _DTYPES and not value.any()
    }
    return {**given, **found} if found else given
