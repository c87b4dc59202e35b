"""Running models: a loop without an end is stopped."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from conformance.executors import OnnxRuntime

_ENDLESS = """
<ir_version: 8, opset_import: ["" : 17]>
endless (bool go, float x) => (float y) {
    y = Loop (, go, x) <body = body (int64 i, bool keeps, float s) => (bool goes_on, float next) {
        goes_on = Identity (keeps)
        next = Identity (s)
    }>
}
"""


def test_a_loop_without_end_is_stopped() -> None:
    runtime = OnnxRuntime(onnx.parser.parse_model(_ENDLESS), seconds=0.2)
    assert runtime.run({"go": np.zeros((), bool), "x": np.array(2, np.float32)}) == [2]
    with pytest.raises(TimeoutError, match="no result after 0 seconds"):
        runtime.run({"go": np.ones((), bool), "x": np.array(2, np.float32)})
