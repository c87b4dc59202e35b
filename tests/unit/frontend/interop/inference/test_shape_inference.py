"""Operators whose inference in ONNX is wrong, or ends the process where an operand has no type."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper  # noqa: TID251 - models without types, which onnx_ir does not build

from caffe2_frontend.interop.inference.shape_inference import infer_shapes

ML = "ai.onnx.ml"


def model(node: onnx.NodeProto, version: int, info: onnx.ValueInfoProto) -> onnx.ModelProto:
    opaque = helper.make_node("Opaque", ["x"], ["a"], domain="custom")
    direct = onnx.NodeProto.FromString(node.SerializeToString())
    direct.input[0], direct.output[0] = "x", "z"
    outputs = [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="z")]
    graph = helper.make_graph([opaque, node, direct], "g", [info], outputs)
    domains = {"": 20, ML: version, "custom": 1}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in domains.items()])


@pytest.mark.parametrize(
    ("op_type", "domain", "version", "attributes"),
    [
        ("EyeLike", "", 5, {"dtype": TensorProto.INT64}), ("RegexFullMatch", "", 5, {"pattern": "a"}),
        ("DictVectorizer", ML, 1, {"int64_vocabulary": [1]}), ("LabelEncoder", ML, 1, {"classes_strings": ["a"]}),
        ("TreeEnsemble", ML, 5, {}),
    ],
)  # fmt: skip
def test_operands_without_types(op_type: str, domain: str, version: int, attributes: dict[str, Any]) -> None:
    node = helper.make_node(op_type, ["a"], ["y"], domain=domain, **attributes)
    given = model(node, version, onnx.ValueInfoProto(name="x"))
    inferred = infer_shapes(given, data_prop=True)
    assert list(inferred.graph.node) == list(given.graph.node)
    assert list(inferred.opset_import) == list(given.opset_import)
    typed = infer_shapes(model(node, version, helper.make_tensor_value_info("x", TensorProto.STRING, [2, 2])))
    types = {info.name: info.type.tensor_type.elem_type for info in typed.graph.output}
    if op_type == "EyeLike":
        assert types == {"y": TensorProto.INT64, "z": TensorProto.INT64}


def test_products_of_attention_have_no_size_that_is_not_known() -> None:
    """ONNX infers 0 where the number of keys is not known."""
    node = helper.make_node("Attention", ["q", "k", "k"], ["y", "", "", "products"])
    shapes = {"q": [2, 3, 4, 8], "k": [2, 3, "keys", 8]}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="products")])
    inferred = infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))
    assert list(inferred.graph.node) == [node]
    assert not any(
        dim.HasField("dim_value") for info in inferred.graph.output for dim in info.type.tensor_type.shape.dim
    )


def test_negative_dims_are_not_known() -> None:
    """ONNX's Slice takes one for a length, and ends the process."""
    given = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> g (float[A, B] x) => (int64[N] y) '
        "<int64[1] start = {1}, int64[1] end = {99}, int64[-7] s> { s = Shape (x) y = Slice (s, start, end) }"
    )
    before = given.SerializeToString()
    inferred = infer_shapes(given, data_prop=True)
    assert given.SerializeToString() == before
    assert [dim.dim_value for info in inferred.graph.output for dim in info.type.tensor_type.shape.dim] == [1]
