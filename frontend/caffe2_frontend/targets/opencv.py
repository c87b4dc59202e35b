"""OpenCV's dnn module."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

_BODY: Final = "its importer does not read operators with bodies as they are exported"

OPENCV: Final = Target(
    "opencv",
    "run: recorded cases, in 5.0.0",
    recurrent="portable",
    lacks=dict.fromkeys(("If", "Loop", "Scan"), _BODY),
    dtypes=frozenset({ir.DataType.STRING, ir.DataType.FLOAT16}),
)
