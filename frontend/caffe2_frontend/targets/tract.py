"""tract."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

TRACT: Final = Target(
    "tract",
    "run: recorded cases, in 0.23.9",
    recurrent="portable",
    scans=True,
    selects=True,  # of two Ifs of a model it says that their names are the same
    lacks={
        "Loop": "its importer has no Loop",
        "RNN of Relu": "its RNN computes Tanh, whatever the activation is",
    },
    dtypes=frozenset({ir.DataType.STRING}),
)
