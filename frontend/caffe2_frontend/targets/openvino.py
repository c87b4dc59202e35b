"""OpenVINO."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

_ARITHMETIC: Final = ("Add", "BitShift", "Div", "Mul", "Sub")
_BYTES: Final = "its arithmetic of bytes saturates and rounds"

OPENVINO: Final = Target(
    "openvino",
    "run: recorded cases, in 2026.4.1",
    recurrent="portable",
    lacks={
        "Scan": "its Scan computes other values, or is not loaded",
        **{f"{kind} of {dtype}": _BYTES for kind in _ARITHMETIC for dtype in ("int8", "uint8")},
    },
    constants=dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), (1,)),
    dtypes=frozenset({ir.DataType.STRING, ir.DataType.DOUBLE}),  # it computes doubles as floats
)
