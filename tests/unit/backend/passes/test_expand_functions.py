"""Operators that ONNX defines through others."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator
from support.random_values import RandomValues

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge.diagnostics import ConversionError


def test_outputs_that_a_definition_does_not_compute_for_a_node(random: RandomValues) -> None:
    """The definition of Attention lists present keys and values, which it computes only where the node has them."""
    inputs = ", ".join(f"float[1,2,3,4] {name}" for name in "qkv")
    text = f'<ir_version: 11, opset_import: ["": 24]> g ({inputs}) => (float[1,2,3,4] y) {{ y = Attention (q, k, v) }}'
    model = parser.parse_model(text)
    feed = {name: random.normal(1, 2, 3, 4) for name in "qkv"}
    expected = ReferenceEvaluator(model).run(None, feed)[0]
    np.testing.assert_allclose(Predictor(to_netdef(model)).run(feed)["y"], expected, rtol=1e-4, atol=1e-6)


def test_a_body_that_returns_its_operand() -> None:
    """ONNX's builder of FlexAttention names the operand in the definition, and not what the body returns."""
    text = """<ir_version: 13, opset_import: ["": 26, "ai.onnx.preview": 1]>
        g (float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v) => (float[1,2,4,8] y) {
        y = ai.onnx.preview.FlexAttention
            <score_mod: graph = b (float[B,H,L,S] s) => (float[B,H,L,S] s) { t = Add(s, s) }>(q, k, v) }"""
    with pytest.raises(ConversionError, match="FlexAttention: error: ONNX's definition of the node reads"):
        to_netdef(parser.parse_model(text))
