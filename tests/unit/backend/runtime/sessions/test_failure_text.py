"""The texts of onnxruntime's errors."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from caffe2_backend.runtime.memory import lack_in_session
from caffe2_backend.runtime.sessions.failure_text import failed_node, failure_text
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import RunError

RUNNING = "Non-zero status code returned while running"


RESHAPE = (
    f"[ONNXRuntimeError] : 1 : FAIL : {RUNNING} Reshape node. Name:'r' Status Message: "
    "/onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:91 onnxruntime::ReshapeHelper::"
    "ReshapeHelper(const onnxruntime::TensorShape&, bool) input_shape_size == requested_shape_size was false. "
    "The input tensor cannot be reshaped. Input shape:{2}, requested shape:{3}\n"
)
GATHER = (
    f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : {RUNNING} If node. Name:'if' Status Message: {RUNNING} Gather node. "
    "Name:'' Status Message: idx=5 must be within the inclusive range [-3,2]"
)
DIV = (
    f"[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : {RUNNING} Div node. Name:'d' Status Message: "
    "/core/ops.cc:7 void onnxruntime::Div(std::function<void(int)>) const divisor != 0 was false. "
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RESHAPE, "Reshape node 'r': The input tensor cannot be reshaped. Input shape:{2}, requested shape:{3}"),
        (GATHER, "If node 'if': Gather node: idx=5 must be within the inclusive range [-3,2]"),
        (DIV, "Div node 'd': divisor != 0 was false."),
        ("matmul_helper.h:59 MatMul dimension mismatch", "MatMul dimension mismatch"),
        ("Load model failed", "Load model failed"),
    ],
)
def test_what_is_left(text: str, expected: str) -> None:
    assert failure_text(text) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (failure_text(GATHER), "if"),
        (f"onnxruntime: {failure_text(RESHAPE)}", "r"),
        (str(lack_in_session(RESHAPE + "bad_alloc")), "r"),
        ("Gather node: idx=5", None),
    ],
)
def test_the_node_that_failed(text: str, name: str | None) -> None:
    assert failed_node(text) == name


def test_a_run_that_fails() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[N] x, int64[K] shape) => (float[M] y) '
        "{ [r] y = Reshape(x, shape) }"
    )
    serialized = model.SerializeToString()
    with pytest.raises(RunError, match=r"^onnxruntime: Reshape node 'r': .*cannot be reshaped") as raised:
        Session(serialized).run({"x": np.zeros(2, np.float32), "shape": np.array([3])})
    assert "ONNXRuntimeError" not in str(raised.value)
