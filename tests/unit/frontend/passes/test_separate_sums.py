"""Additions before layer normalizations become sums, which onnxruntime does not fuse to a slow kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from support.paths import MODELS

from caffe2_bridge import load
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import Recurrent, to_onnx
from caffe2_frontend.passes.separate_sums import SeparateSums
from caffe2_frontend.state import Export

HEAD = '<ir_version: 9, opset_import: ["" : 20]>\n'
NORMALIZED = (
    HEAD
    + """g (float[1,2,3] x, float[3] b, float[3] scale) => (float[1,2,3] y) {
    other = Add(x, x) sum = Add(x, b) normal = LayerNormalization<axis = -1>(sum, scale) y = Add(normal, other) }"""
)


def test_an_addition_that_is_normalized_becomes_a_sum() -> None:
    original = onnx.parser.parse_model(NORMALIZED)
    state = Export(NetView(NetDef()), InitNet(), model=ir.from_proto(original))
    SeparateSums()(state)
    assert state.model is not None
    changed = ir.to_proto(state.model)
    assert [node.op_type for node in changed.graph.node] == ["Add", "Sum", "LayerNormalization", "Add"]
    feed = {"x": np.arange(6, dtype=np.float32).reshape(1, 2, 3), "b": np.ones(3, np.float32)}
    feed["scale"] = np.array([1, 2, 3], np.float32)
    before, after = (ort.InferenceSession(each.SerializeToString()).run(None, feed) for each in (original, changed))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-6)


@pytest.mark.parametrize("form", ["scan", "loop"])
def test_a_cell_with_layer_normalization_is_not_fused_to_the_slow_kernel(form: Recurrent, tmp_path: Path) -> None:
    model = to_onnx(load(MODELS / "layer_norm_lstm"), recurrent=form)
    optimized = tmp_path / "optimized.onnx"
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(optimized)
    ort.InferenceSession(model.SerializeToString(), options)
    run = ir.from_proto(onnx.ModelProto.FromString(optimized.read_bytes()))
    kinds = [node.op_type for node in run.graph.all_nodes()]
    assert "LayerNormalization" in kinds
    assert "SkipLayerNormalization" not in kinds
