"""Folding: computed when the model is written, and not before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
import onnx_ir.convenience
import pytest
from conformance.recording import operator
from support.cells import fills
from support.nets import net, op
from support.paths import CHAR_RNN

import caffe2_frontend
from caffe2_bridge import load
from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.passes.fold_constants import FoldConstants
from caffe2_frontend.state import Export

Array = np.ndarray[Any, Any]


@dataclass
class Graph:
    """A graph of constants; ``loads`` names those whose values were asked for."""

    loads: list[str] = field(default_factory=list)
    values: list[ir.Value] = field(default_factory=list)
    nodes: list[ir.Node] = field(default_factory=list)

    def constant(self, name: str, array: Array) -> ir.Value:
        def load() -> ir.TensorProtocol:
            self.loads.append(name)
            return ir.Tensor(array)

        tensor = ir.LazyTensor(load, ir.DataType.from_numpy(array.dtype), ir.Shape(array.shape), name=name)
        type_ = ir.TensorType(tensor.dtype)
        value = ir.Value(name=name, type=type_, shape=ir.Shape(array.shape), const_value=tensor)
        self.values.append(value)
        return value

    def node(self, op_type: str, *inputs: ir.Value, shape: tuple[int, ...], name: str, **attrs: Any) -> ir.Value:
        attributes = onnx_ir.convenience.convert_attributes(attrs)
        node = ir.Node("", op_type, inputs, attributes, num_outputs=1)
        (output,) = node.outputs
        output.name, output.type, output.shape = name, inputs[0].type, ir.Shape(shape)
        self.nodes.append(node)
        return output

    def folded(self, *outputs: ir.Value, inputs: tuple[ir.Value, ...] = ()) -> ir.Graph:
        graph = ir.Graph(inputs, outputs, nodes=self.nodes, initializers=self.values, opset_imports={"": 20}, name="g")
        state = Export(NetView(NetDef()), InitNet(), model=ir.Model(graph, ir_version=9))
        FoldConstants()(state)
        return state.graph


@pytest.fixture
def x() -> ir.Value:
    return ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 2]))


def test_weights_are_read_when_the_result_is(x: ir.Value) -> None:
    graph = Graph()
    w = graph.constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    t = graph.node("Transpose", w, shape=(3, 2), name="t", perm=[1, 0])
    doubled = graph.node("Add", t, t, shape=(3, 2), name="d")
    y = graph.node("MatMul", doubled, x, shape=(3, 2), name="y")
    result = graph.folded(y, inputs=(x,))
    assert [node.op_type for node in result] == ["MatMul"]
    assert graph.loads == []
    tensor = result.initializers["d"].const_value
    assert tensor is not None
    assert (tensor.dtype, tensor.shape.numpy()) == (ir.DataType.FLOAT, (3, 2))
    assert graph.loads == []
    np.testing.assert_array_equal(tensor.numpy(), 2 * np.arange(6, dtype=np.float32).reshape(2, 3).T)
    assert set(graph.loads) == {"w"}


def test_all_outputs_of_a_node_are_folded(x: ir.Value) -> None:
    graph = Graph()
    w = graph.constant("w", np.arange(4, dtype=np.float32).reshape(2, 2))
    node = ir.Node("", "Split", [w], onnx_ir.convenience.convert_attributes({"num_outputs": 2}), num_outputs=2)
    for k, value in enumerate(node.outputs):
        value.name, value.type, value.shape = f"s{k}", w.type, ir.Shape([1, 2])
    graph.nodes.append(node)
    y = graph.node("Mul", node.outputs[1], x, shape=(2, 2), name="y")
    z = graph.node("Mul", node.outputs[0], y, shape=(2, 2), name="z")
    result = graph.folded(z, inputs=(x,))
    for k, name in enumerate(["w_part", "w_part_1"]):
        tensor = result.initializers[name].const_value
        assert tensor is not None
        np.testing.assert_array_equal(tensor.numpy(), [[2 * k, 2 * k + 1]])


def test_a_scalar_stays_a_scalar(x: ir.Value) -> None:
    graph = Graph()
    w = graph.constant("w", np.ones((1, 1), np.float32))
    s = graph.node("Reshape", w, graph.constant("n", np.zeros(0, np.int64)), shape=(), name="s")
    y = graph.node("Mul", s, x, shape=(2, 2), name="y")
    (tensor,) = (value.const_value for value in graph.folded(y, inputs=(x,)).initializers.values())
    assert tensor is not None
    assert (tensor.shape.numpy(), tensor.numpy().shape) == ((), ())


@pytest.mark.parametrize("kind", ["Expand", "RandomNormalLike", "MatMul"])
def test_what_grows_or_is_random_stays(kind: str, x: ir.Value) -> None:
    graph = Graph()
    w = graph.constant("w", np.ones((2, 2), np.float32))
    inputs = {"Expand": [w, graph.constant("n", np.array([9, 2, 2]))], "MatMul": [w, w]}.get(kind, [w])
    y = graph.node(kind, *inputs, shape=(2, 2), name="y")
    z = graph.node("Add", y, x, shape=(2, 2), name="z")
    assert [node.op_type for node in graph.folded(z, inputs=(x,))] == [kind, "Add"]


def test_an_output_of_the_graph_is_left_to_a_node() -> None:
    graph = Graph()
    w = graph.constant("w", np.ones((2, 2), np.float32))
    y = graph.node("Neg", w, shape=(2, 2), name="y")
    assert [node.op_type for node in graph.folded(y)] == ["Neg"]


def test_unknown_sizes_are_not_folded(x: ir.Value) -> None:
    graph = Graph()
    w = graph.constant("w", np.ones((2, 2), np.float32))
    y = graph.node("Neg", w, shape=(2, 2), name="y")
    y.shape = ir.Shape(["N", 2])
    z = graph.node("Add", y, x, shape=(2, 2), name="z")
    assert len(list(graph.folded(z, inputs=(x,)))) == 2


def test_an_export_reads_no_weights_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = Parameter.load

    def watched(self: Parameter) -> Array:
        read.append(self.name)
        return plain(self)

    weights = {"w": np.ones((40, 30), np.float32), "b": np.zeros(40, np.float32)}
    net = NetDef(op=[operator("FC", ["x", "w", "b"], ["y"], axis=2)], external_input=["x"], external_output=["y"])
    model = Model.of(net, read_init_net(fills(weights)))
    monkeypatch.setattr(Parameter, "load", watched)
    converted = caffe2_frontend.convert(model)
    assert "w" not in read
    ir.to_proto(converted)
    assert "w" in read


def test_a_repacked_weight_is_named_after_it() -> None:
    init = fills({"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)})
    model = to_onnx(net(op("FC", "x w b", "y", axis=2), inputs="x w b"), init)
    assert [tensor.name for tensor in model.graph.initializer] == ["b", "w_transposed"]


def test_a_name_that_a_blob_has_is_not_taken() -> None:
    init = fills({"w": np.ones((2, 3), np.float32), "w_transposed": np.ones(2, np.float32)})
    model = to_onnx(net(op("FC", "x w w_transposed", "y", axis=2), inputs="x w w_transposed"), init)
    assert [tensor.name for tensor in model.graph.initializer] == ["w_transposed", "w_transposed_1"]


def test_operands_of_a_recurrent_operator_are_named_after_their_roles() -> None:
    names = {tensor.name for tensor in to_onnx(load(CHAR_RNN), recurrent="fused").graph.initializer}
    assert {f"LSTM/hidden_state_all_{role}" for role in "WRB"} <= names
    assert {"logits_b", "logits_w_transposed"} <= names


def test_constants_that_only_folded_nodes_read_are_removed() -> None:
    init = fills({"w": np.ones((2, 3), np.float32), "b": np.zeros(3, np.float32)})
    ops = [operator("Transpose", ["w"], ["t"]), operator("FC", ["x", "t", "b"], ["y"])]
    model = to_onnx(NetDef(op=ops, external_output=["y"]), init, inputs={"x": ("float32", ["N", 2])})
    read = {name for node in model.graph.node for name in node.input}
    assert {tensor.name for tensor in model.graph.initializer} == read - {"x"}
    assert "w" not in read
