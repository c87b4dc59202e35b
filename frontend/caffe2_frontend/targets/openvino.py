"""OpenVINO."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

OPENVINO: Final = Target(
    "openvino",
    "run: recorded recurrent and control cases, in 2026.4.1",
    recurrent="portable",
    lacks={
        "Scan": "its Scan computes other values, or is not loaded",
    },
    constants=dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), (1,)),
    dtypes=frozenset({ir.DataType.STRING}),
)
