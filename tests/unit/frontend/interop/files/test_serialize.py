"""Models are written as onnx_ir writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_frontend import convert
from caffe2_frontend.interop.files.serialize import to_proto, write_model

_FOLDERS = sorted(path for path in MODELS.iterdir() if path.is_dir())


def same(model: ir.Model) -> bool:
    return to_proto(model).SerializeToString(deterministic=True) == ir.to_proto(model).SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize("folder", _FOLDERS[::4], ids=lambda path: path.name)
def test_exports(folder: Path) -> None:
    try:
        model = convert(c2.load(folder))
    except c2.ConversionError:
        pytest.skip("the model is refused")
    assert same(model)


def test_everything_that_a_node_can_have() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "other" : 1], doc_string: "model">
    g (float[N, 2] x, bool c) => (float[N, 2] y, z) <float[2] w = {1.0, -0.0}> {
        m, n = Split <num_outputs = 2, axis = 1> (x)
        d = Dropout (x)
        k = Constant <value = float[1] {-0.0}> ()
        a = Elu <alpha = -0.0> (x)
        b = Elu <alpha = 0.0> (a)
        p = Pad <mode = "edge"> (x, w, "", w)
        t = other.Op <strings = ["a", "b"], floats = [1.0], ints = [1, 2]> (b, k, w)
        y = If (c) <then_branch = yes () => (float r) { s = Relu(b)  r = Exp(s) },
                    else_branch = no () => (float r) { r = Identity(b) }>
        z = SequenceConstruct (m, n)
    }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    model.graph.doc_string, model.producer_name, model.metadata_props["key"] = "graph", "test", "value"
    for index, node in enumerate(model.graph):
        node.name, node.doc_string, node.overload = f"n{index}", f"doc {index}", "overload" if node.domain else ""
        node.metadata_props.update({"b": "2", "a": "1" * 200})
        node.outputs[0].doc_string = f"value {index}"
        node.outputs[0].metadata_props["k"] = "v"
        node.outputs[0].shape = ir.Shape(["N", None, 3], denotations=["BATCH", None, None])
        node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT, denotation="IMAGE") if index % 2 else None
    assert same(model)


def test_functions_and_weights() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
    g (float[N, 2] x) => (float[N, 2] y) { y = f.twice(x) }
    <domain: "f", opset_import: ["" : 20]> twice (a) => (b) { b = Add(a, a) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    model.graph.register_initializer(
        ir.Value(name="w", type=ir.TensorType(ir.DataType.FLOAT), const_value=ir.Tensor(np.ones(3, np.float32)))
    )
    assert same(model)


def test_a_value_without_a_name() -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
    inner = ir.Node("", "Relu", [x])
    last = ir.Node("", "Relu", [inner.outputs[0]])
    last.outputs[0].name = "y"
    graph = ir.Graph([x], [last.outputs[0]], nodes=[inner, last], opset_imports={"": 20})
    inner.outputs[0].name = None
    with pytest.raises(ir.serde.SerdeError):
        to_proto(ir.Model(graph, ir_version=9))


def test_a_model_in_two_parts_is_the_model() -> None:
    model = convert(c2.load(MODELS / "lstm"))
    written = write_model(model)
    assert onnx.ModelProto.FromString(written.data) == ir.to_proto(model)


def test_bodies_that_are_nested_too_deeply_to_parse() -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
    c = ir.Value(name="c", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))

    def body(depth: int, name: str) -> ir.Graph:
        node = nested(depth - 1) if depth else ir.Node("", "Relu", [x])
        node.outputs[0].name = f"{name}{depth}"
        return ir.Graph([], node.outputs, nodes=[node], name=f"{name}{depth}")

    def nested(depth: int) -> ir.Node:
        branches = [ir.AttrGraph("then_branch", body(depth, "t")), ir.AttrGraph("else_branch", body(0, f"e{depth}_"))]
        return ir.Node("", "If", [c], branches)

    last = nested(60)
    last.outputs[0].name = "y"
    model = ir.Model(ir.Graph([x, c], last.outputs, nodes=[last], name="g", opset_imports={"": 20}), ir_version=9)
    assert str(to_proto(model)) == str(ir.to_proto(model))
