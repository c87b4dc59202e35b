"""The table of CUDA kernels: operators, versions, types, and attributes that kernels do not take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import pytest

from caffe2_backend.runtime.placement.kernels import Kernel, missing_kernel

OPSET = {"": 20}
FLOAT, INT32, STRING = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.STRING


def node(
    op_type: str, types: Sequence[ir.DataType | None], attributes: Mapping[str, Any] | None = None, domain: str = ""
) -> ir.Node:
    inputs = [ir.Value(name=f"x{i}", type=None if t is None else ir.TensorType(t)) for i, t in enumerate(types)]
    return ir.node(op_type, inputs, attributes=attributes or {}, domain=domain)


@pytest.mark.parametrize(
    "given",
    [
        node("Relu", [FLOAT]),
        node("MatMul", [FLOAT, FLOAT]),
        node("Concat", [INT32, INT32, INT32], {"axis": 0}),
        node("Relu", [None]),
        node("LSTM", [FLOAT] * 3, {"hidden_size": 4}),
        node("GRU", [FLOAT] * 3, {"hidden_size": 4, "linear_before_reset": 1}),
        node("RNN", [FLOAT] * 3, {"hidden_size": 4, "activations": ["Tanh"]}),
        node("Mish", [FLOAT]),
        node("LSTM", [FLOAT] * 3, {"activations": ["Sigmoid", "Tanh", "Tanh"] * 2, "direction": "bidirectional"}),
        node("ConvTranspose", [FLOAT, FLOAT], {"pads": [1, 2, 1, 2]}),
        node("Gelu", [FLOAT], domain="com.microsoft"),
    ],
    ids=lambda given: given.op_type,
)
def test_nodes_with_a_kernel(given: ir.Node) -> None:
    assert missing_kernel(given, {**OPSET, "com.microsoft": 1}) == ""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (node("Unique", [FLOAT]), "Unique has no CUDA kernel"),
        (node("MyOwn", [FLOAT], domain="mine"), "mine::MyOwn has no CUDA kernel"),
        (node("MatMul", [INT32, INT32]), "MatMul has no CUDA kernel for int32"),
        (node("Equal", [STRING, STRING]), "Equal has no CUDA kernel for string"),
        (node("GRU", [FLOAT] * 3), "GRU has no CUDA kernel that resets before the product (linear_before_reset=0)"),
        (node("LSTM", [FLOAT] * 3, {"clip": 1.0}), "LSTM has no CUDA kernel with clip"),
        (node("LSTM", [*[FLOAT] * 4, INT32, *[FLOAT] * 3]), "LSTM has no CUDA kernel with peepholes"),
        (node("LSTM", [FLOAT] * 3, {"activations": ["Relu", "Tanh", "Tanh"]}),
         "LSTM has no CUDA kernel with the activations relu, tanh, tanh"),
        (node("RNN", [FLOAT] * 3, {"activations": ["Relu"]}),
         "RNN has no CUDA kernel with the activations relu"),
        (node("ConvTranspose", [FLOAT, FLOAT], {"pads": [0, 0, 1, 1]}),
         "ConvTranspose has no CUDA kernel with pads that differ between the ends of an axis"),
        (node("ArgMax", [FLOAT], {"select_last_index": 1}), "ArgMax has no CUDA kernel with select_last_index"),
    ],
    ids=lambda given: given.op_type if isinstance(given, ir.Node) else "",
)  # fmt: skip
def test_nodes_without_a_kernel(given: ir.Node, reason: str) -> None:
    assert missing_kernel(given, OPSET) == reason


def test_versions_as_onnxruntime_compares_them() -> None:
    closed, latest = Kernel(7, 12, {}), Kernel(13, None, {})

    assert [version for version in range(1, 16) if closed.is_for(version)] == [7, 8, 9, 10, 11, 12]
    assert [version for version in range(1, 16) if latest.is_for(version)] == [13]
