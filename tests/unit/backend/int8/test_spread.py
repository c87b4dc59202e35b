"""Nodes that read quantized bytes, between nodes that convert them to floats and back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.int8.spread import spread_quantization
from caffe2_backend.passes.flatten import infer

HEAD = '<ir_version: 10, opset_import: ["": 20]> g (float[N,2,4,4] x) => (uint8 p)'
SCALE = "<float s = {0.02}, uint8 z = {128}, int64[2] shape = {0, -1}>"


def spread(body: str) -> list[str]:
    model = ir.from_proto(parser.parse_model(f"{HEAD} {SCALE} {{ q = QuantizeLinear(x, s, z) {body} }}"))
    infer(model)
    names = iter(range(100))
    spread_quantization(model.graph, lambda base: f"{base}{next(names)}")
    assert model.graph.outputs[0].name == "p"
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("node", ["MaxPool<kernel_shape = [2, 2]>(q)", "Flatten(q)", "Reshape(q, shape)"])
def test_nodes_that_keep_the_scale(node: str) -> None:
    op_type = node.partition("(")[0].partition("<")[0]
    assert spread(f"p = {node}") == ["QuantizeLinear", "DequantizeLinear", op_type, "QuantizeLinear"]


def test_nodes_one_after_another() -> None:
    kinds = spread("a = MaxPool<kernel_shape = [2, 2]>(q) p = Flatten(a)")
    assert kinds[1::3] == ["DequantizeLinear"] * 2
    assert kinds[2::3] == ["MaxPool", "Flatten"]
    assert kinds[0::3] == ["QuantizeLinear"] * 3


@pytest.mark.parametrize("body", ["p = Transpose(q)", "p, i = MaxPool<kernel_shape = [2, 2]>(q)", "p = Identity(q)"])
def test_other_nodes_stay(body: str) -> None:
    assert "DequantizeLinear" not in spread(body)


def test_what_is_computed_is_the_same() -> None:
    text = f"{HEAD} {SCALE} {{ q = QuantizeLinear(x, s, z) p = MaxPool<kernel_shape = [2, 2]>(q) }}"
    x = np.random.default_rng(0).normal(size=(2, 2, 4, 4)).astype(np.float32)
    plain, fused = (
        Predictor(to_netdef(parser.parse_model(text), int8=int8)).run({"x": x})["p"] for int8 in (False, True)
    )
    np.testing.assert_array_equal(fused, plain)
