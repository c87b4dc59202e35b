"""What ONNX allows, or exporters write, and the import's representation of models does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.onnx_backend import prepare
from caffe2_bridge.diagnostics import ConversionError

F = np.float32
LINEAR = ([3.0, 4.0], [1, 3], [2, 3])
ROWS = ([3.0, 4.0], [[0, 1], [1, 0]], [2, 3])
DENSE = {"linear": [[0, 3, 0], [4, 0, 0]], "rows": [[0, 3, 0], [4, 0, 0]]}


def sparse(values: list[float], indices: Any, dims: list[int]) -> onnx.SparseTensorProto:
    held, where = numpy_helper.from_array(np.array(values, F), "s"), numpy_helper.from_array(np.array(indices), "i")
    return onnx.SparseTensorProto(values=held, indices=where, dims=dims)


def with_constant(tensor: onnx.SparseTensorProto, opset: int = 17, *, inside: bool = False) -> onnx.ModelProto:
    """Return y = x + the tensor, in a branch of an If where ``inside``."""
    text = "g (float[2,3] x, bool c) => (float[2,3] y) "
    branch = (
        "<then_branch = a () => (float[2,3] u) { u = Add(x, k) }, else_branch = b () => (float[2,3] v) { v = Neg(x) }>"
    )
    text += f"{{ y = If(c) {branch} }}" if inside else "{ d = Not(c) y = Add(x, k) }"
    text = text.replace("u = Add", "k = Constant<value = float {0}>() u = Add").replace(
        "y = Add", "k = Constant<value = float {0}>() y = Add"
    )
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    graph = model.graph.node[0].attribute[0].g if inside else model.graph
    (node,) = (node for node in graph.node if node.op_type == "Constant")
    attribute = onnx.AttributeProto(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=tensor)
    node.attribute[0].CopyFrom(attribute)
    return model


def both(model: onnx.ModelProto, **feed: Any) -> list[Any]:
    """Return what the carried net computes, and the strict one."""
    name = model.graph.output[0].name
    return [prepare(model).run(feed)[0], Predictor(to_netdef(model)).run(feed)[name]]


@pytest.mark.parametrize("opset", [11, 13, 21])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("tensor", [sparse(*LINEAR), sparse(*ROWS)], ids=list(DENSE))
def test_sparse_constants(tensor: onnx.SparseTensorProto, opset: int, *, inside: bool) -> None:
    model = with_constant(tensor, opset, inside=inside)
    before = model.SerializeToString()
    for y in both(model, x=np.ones((2, 3), F), c=np.ones((), bool)):
        np.testing.assert_array_equal(y, np.array(DENSE["rows"], F) + 1)
    assert model.SerializeToString() == before


def test_sparse_initializers() -> None:
    graph = "g (float[2,3] x, float[2,3] s) => (float[2,3] y) { y = Add(x, s) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    del model.graph.input[1]
    model.graph.sparse_initializer.append(sparse(*LINEAR))
    for y in both(model, x=np.zeros((2, 3), F)):
        np.testing.assert_array_equal(y, DENSE["linear"])


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (sparse([1.0], [7], [2, 3]), "indices that do not fit its shape \\[2, 3\\]"),
        (sparse([1.0], [[2, 0]], [2, 3]), "indices that do not fit"),
        (sparse([1.0], [0], [1 << 20, 1 << 20]), "must not be sparse of shape"),
    ],
)
def test_sparse_constants_that_are_not_stored_densely(tensor: onnx.SparseTensorProto, reason: str) -> None:
    with pytest.raises(ConversionError, match=reason) as caught:
        to_netdef(with_constant(tensor))
    assert [finding.code for finding in caught.value.findings] == ["sparse-tensor"]


@pytest.mark.parametrize("opset", [11, 17, 21])
def test_dims_of_size_minus_one_are_unknown(opset: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["": {opset}]> g (float[N,2] x) => (float[K] y)
      <int64[2] s = {{0, 2}}, int64[1] f = {{-1}}, float[N,2] a> {{
      a = Reshape(x, s) h = Shape(a) z = ConstantOfShape(h) b = Add(a, z) y = Reshape(b, f) }}"""
    model = parser.parse_model(text)
    for info in (model.graph.input[0], *model.graph.value_info):
        info.type.tensor_type.shape.dim[0].dim_value = -1
    x = np.arange(6, dtype=F).reshape(3, 2)
    for y in both(model, x=x):
        np.testing.assert_array_equal(y, x.reshape(-1))


CLASSIFIER = """<ir_version: 8, opset_import: ["": 15, "ai.onnx.ml": 1]>
  g (float[N,2] x) => (int64[N] label, float maps) {
  label, p = ai.onnx.ml.LinearClassifier<
    coefficients = [0.5, -0.5, 0.25, 0.5], intercepts = [0.125, -0.125], classlabels_ints = [3, 5], multi_class = 0>(x)
  maps = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(p) }"""


def classifier() -> onnx.ModelProto:
    model = parser.parse_model(CLASSIFIER)
    model.graph.output[1].type.Clear()
    held = model.graph.output[1].type.sequence_type.elem_type.map_type
    held.key_type, held.value_type.tensor_type.elem_type = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    return model


def test_classifiers_output_maps() -> None:
    label, maps = prepare(classifier()).run([np.array([[1, 1], [2, -4]], F)])
    assert list(label) == [5, 3]
    assert [sorted(entry) for entry in maps] == [[3, 5], [3, 5]]
    np.testing.assert_allclose([entry[3] for entry in maps], [0.125, 3.125])
    carried = Predictor(to_netdef(classifier(), foreign="carry")).run({"x": np.array([[1, 1], [2, -4]], F)})
    assert carried["maps"] == maps


def test_inputs_that_are_maps_are_refused() -> None:
    model = classifier()
    model.graph.input.add(name="m").type.CopyFrom(model.graph.output[1].type)
    with pytest.raises(ConversionError, match="input 'm' must not be a map"):
        to_netdef(model, foreign="carry")


@pytest.mark.parametrize("opset", [11, 13, 21])
@pytest.mark.parametrize("x", [np.array([-1, 0.5, 2], F), np.array(2, F)])
def test_bounds_of_clip_with_a_dim_of_one(opset: int, x: Any) -> None:
    dims = "[3]" if x.ndim else ""
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g (float{dims} x, float[1] l) => (float{dims} y) '
    known = parser.parse_model(
        text.replace(", float[1] l", "") + "<float[1] l = {0}, float[1] h = {1}> { y = Clip(x, l, h) }"
    )
    for y in both(known, x=x):
        np.testing.assert_array_equal(y, np.clip(x, 0, 1))
    computed = parser.parse_model(text + "<float[1] h = {1}> { y = Clip(x, l, h) }")
    for y in both(computed, x=x, l=np.zeros(1, F)):
        np.testing.assert_array_equal(y, np.clip(x, 0, 1))
