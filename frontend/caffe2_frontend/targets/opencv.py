"""OpenCV's dnn module."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

_ABSENT: Final = "its new engine has no such operator, and the old one fails or computes something else"

OPENCV: Final = Target(
    "opencv",
    "run: recorded cases, in 5.0.0",
    recurrent="portable",
    lacks={
        **dict.fromkeys(("Scan", "GRU", "RNN", "RNN of Relu", "RNN of Tanh"), _ABSENT),
        "If": "a loaded net can only take the branch that its first run took. Given the sizes of all inputs (--input),"
        " both branches are computed instead, unless they contain loops",
    },
    # Without axes it would write nothing, and output what was in its memory.
    constants=dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), (1,)),
    dtypes=frozenset({ir.DataType.STRING, ir.DataType.FLOAT16}),
    selects=True,
    scalars=False,
    loop_outputs=False,
    omitted_outputs=False,
)
