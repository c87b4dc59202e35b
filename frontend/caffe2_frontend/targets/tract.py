"""tract."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

_UNLISTED: Final = "its importer does not register it"

TRACT: Final = Target(
    "tract",
    "the operators that an earlier version's importer registers; not run",
    recurrent="portable",
    lacks={
        "If": "its importer reads an If only where the condition is a constant",
        "Loop": _UNLISTED,
        "ReverseSequence": _UNLISTED,
    },
    dtypes=frozenset({ir.DataType.STRING}),
)
