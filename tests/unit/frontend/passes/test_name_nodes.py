"""Nodes are named after the Caffe2 operators that they were converted from."""

from __future__ import annotations

import numpy as np
import onnx
from support.cells import fills
from support.exports import export
from support.nets import net, op

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

_WEIGHTS = fills({"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)})


def names(graph: onnx.GraphProto) -> list[str]:
    return [node.name for node in graph.node]


def test_a_node_has_the_name_of_its_operator() -> None:
    fc = op("FC", "x w b", "y", axis=2)
    fc.name = "scores"
    model = export([fc, op("Relu", "y", "z")], {}, _WEIGHTS)
    assert names(model.graph) == ["scores/MatMul", "scores", "z/Relu"]


def test_operators_of_one_name_get_numbers() -> None:
    ops = [op("Relu", "x", "y"), op("Tanh", "y", "z"), op("FC", "z w b", "s")]
    for each in ops:
        each.name = "layer"
    assert names(export(ops, {}, _WEIGHTS).graph) == ["layer", "layer_1", "layer_2"]


def test_a_later_version_of_a_blob_is_named_apart() -> None:
    model = export([op("Relu", "x", "x"), op("Relu", "x", "x"), op("Tanh", "x", "y")], {"x": ("float32", [2])})
    assert len(set(names(model.graph))) == len(model.graph.node)
    assert names(model.graph)[-1] == "y/Tanh"


def test_nodes_in_bodies_are_named_after_their_own_operators() -> None:
    then, other = (NetDef(name=kind, op=[op(kind, "x", "y")]) for kind in ("Relu", "Tanh"))
    branch = op("If", "c x", "y", then_net=then, else_net=other)
    branch.name = "choice"
    model = to_onnx(net(branch, inputs="c x"), inputs={"c": ("bool", [1]), "x": ("float32", ["N"])})
    (node,) = [node for node in model.graph.node if node.op_type == "If"]
    assert node.name == "choice"
    inner = [name for attr in node.attribute for name in names(attr.g)]
    assert sorted(inner) == ["y/Relu", "y/Tanh"]


def test_nodes_of_other_opsets_are_named_too() -> None:
    model = to_onnx(net(op("Gelu", "x", "y")), inputs={"x": ("float32", ["N"])}, opset=13)
    assert all(name.startswith("y/Gelu") for name in names(model.graph))
    assert "y/Gelu" in names(model.graph)
