"""Nodes, names and captured values of graphs with bodies, and contents of values that are known."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from caffe2_frontend.interop.bodies import (
    all_graphs,
    all_nodes,
    captured_values,
    has_bodies,
    proto_nodes,
    value_names,
)
from caffe2_frontend.interop.constants import constant_of, string_tensor

TEXT = """
<ir_version: 9, opset_import: ["" : 20]>
g (bool c, float[2] x) => (float[2] y)
<float w = {3.0}>
{
    k = Constant <value = float {2.0}> ()
    y = If (c) <
        then_branch = t () => (float[2] a) { h = Mul (x, k)  a = Add (h, w) },
        else_branch = e () => (float[2] x) { d = If (c) <
            then_branch = i () => (float n) { n = Neg (k) }, else_branch = j () => (float m) { m = Abs (k) }> }
    >
}
"""


@pytest.fixture(name="proto")
def _proto() -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT)


@pytest.fixture(name="graph")
def _graph(proto: onnx.ModelProto) -> ir.Graph:
    return ir.from_proto(proto).graph


def test_nodes_are_followed_by_those_of_their_bodies(proto: onnx.ModelProto, graph: ir.Graph) -> None:
    types = ["Constant", "If", "Mul", "Add", "If", "Neg", "Abs"]
    assert [node.op_type for node in all_nodes(graph)] == types
    assert [node.op_type for node in proto_nodes(proto.graph)] == types
    assert [each.name for each in all_graphs(graph)] == ["g", "t", "e", "i", "j"]


def test_an_empty_body_is_one(graph: ir.Graph) -> None:
    assert [node.op_type for node in all_nodes(graph) if has_bodies(node)] == ["If", "If"]
    empty = ir.Graph([], [], nodes=[], name="empty")
    assert has_bodies(ir.node("If", [], {"then_branch": empty}))


def test_names_of_all_values(graph: ir.Graph) -> None:
    assert sorted(value_names(graph)) == ["a", "c", "d", "h", "k", "m", "n", "w", "x", "y"]


def test_bodies_capture_what_they_read_or_output_of_graphs_around(graph: ir.Graph) -> None:
    branch = graph.node(1)
    assert [value.name for value in captured_values(branch)] == ["x", "k", "w", "c", "k", "k", "x"]


def test_known_contents(graph: ir.Graph) -> None:
    w, k = graph.initializers["w"], graph.node(0).outputs[0]
    assert [float(constant_of(value)) for value in (w, k)] == [3, 2]  # type: ignore[arg-type] # known
    assert [constant_of(value) for value in (None, graph.inputs[1], graph.outputs[0])] == [None] * 3


def test_tensors_of_strings() -> None:
    tensor = string_tensor(np.array([["a", b"\xff"]], object))
    assert list(tensor.shape) == [1, 2]
    assert tensor.numpy().tolist() == [[b"a", b"\xff"]]
