"""Classifiers that output maps of classes to probabilities, against onnxruntime.

Modules: class_maps.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from caffe2_backend import Predictor, prepare, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession


@pytest.mark.parametrize("opset", [9, 13, 15, 21])
def test_classifiers_output_probabilities(opset: int) -> None:
    """The maps of a classifier of scikit-learn are a tensor in the strict net; ``prepare`` gives the maps."""
    model = parser.parse_model(f"""<ir_version: 6, opset_import: ["": {opset}, "ai.onnx.ml": 1]>
      g (float[N,2] x) => (int64[N] label, float maps) {{
      l, p = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 0.0, 0.0, 1.0], intercepts = [0.0, 0.0],
        classlabels_ints = [0, 1], post_transform = "SOFTMAX">(x)
      label = Cast<to = 7>(l)
      maps = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(p) }}""")
    held = model.graph.output[1].type
    held.Clear()
    held.sequence_type.elem_type.map_type.key_type = onnx.TensorProto.INT64
    held.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    x = np.array([[1, 2], [3, -1]], np.float32)
    label, maps = OnnxSession(model.SerializeToString()).run_values({"x": x})
    found = Predictor(to_netdef(model)).run({"x": x})
    np.testing.assert_array_equal(found["label"], label)
    np.testing.assert_allclose(found["maps"], [[entry[0], entry[1]] for entry in maps], rtol=1e-5)
    assert prepare(model).run([x])[1] == maps
