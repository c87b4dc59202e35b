"""What a target takes in another form alone: branches, outputs of loops, omitted outputs, rows by a vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conformance.recording import operator
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.interop.bodies import proto_bodies

SIZES = {"x": ("float32", [2, 3]), "y": ("float32", [2, 3]), "cond": ("bool", [1])}
COUNTED = {"x": ("float32", [2, 3]), "n": ("float32", [1]), "one": ("float32", [1])}
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)


def kinds(graph: onnx.GraphProto) -> list[str]:
    """Return the types of all nodes, those of bodies included."""
    return [each for node in graph.node for each in (node.op_type, *(k for b in proto_bodies(node) for k in kinds(b)))]


def run(model: onnx.ModelProto, feed: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, {value.name: feed[value.name] for value in session.get_inputs()})
    return found


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("name", ["control_if_else", "control_if_no_else"])
@pytest.mark.parametrize("target", ["opencv", "tract"])
def test_both_branches_are_computed(target: str, name: str, *, condition: bool) -> None:
    net = c2.load(MODELS / name)
    inputs = {key: SIZES[key] for key in net.predict_net.external_input if key in SIZES}
    expected, model = to_onnx(net, inputs=inputs), to_onnx(net, inputs=inputs, target=target)
    assert "If" in kinds(expected.graph)
    assert "If" not in kinds(model.graph)
    assert "Where" in kinds(model.graph)
    feed = {"x": X, "y": Y, "cond": np.array([condition])}
    np.testing.assert_array_equal(run(model, feed), run(expected, feed))
    assert [each.name for each in model.graph.output] == [each.name for each in expected.graph.output]


@pytest.mark.parametrize("condition", [True, False])
def test_a_scalar_of_both_branches_stays_one(*, condition: bool) -> None:
    net, inputs = c2.load(MODELS / "control_if_grad"), {**SIZES, "t": ("float32", [2, 3])}
    feed = {"x": X, "y": Y, "cond": np.array([condition]), "t": X + Y}
    expected, found = (run(to_onnx(net, inputs=inputs, target=name), feed) for name in ("onnxruntime", "opencv"))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, strict=True)


def test_branches_of_unknown_shapes_are_refused() -> None:
    inputs = {"x": ("float32", [None, 3]), "y": ("float32", [None, 3]), "cond": ("bool", [1])}
    with pytest.raises(ConversionError, match=r"opencv does not take If .*sizes of all inputs \(--input\)"):
        to_onnx(c2.load(MODELS / "control_if_else"), inputs=inputs, target="opencv")


def test_branches_with_loops_are_refused() -> None:
    inside = c2.load(MODELS / "control_while").predict_net
    copy = NetDef(name="else", op=[operator("Copy", ["x"], ["acc"])])
    op = operator("If", ["cond"], ["acc"], then_net=inside, else_net=copy)
    net = NetDef(name="n", op=[op], external_input=["cond", "x", "n", "one"], external_output=["acc"])
    inputs = {"cond": ("bool", [1]), **COUNTED}
    assert {"If", "Loop"} <= {*kinds(to_onnx(net, inputs=inputs).graph)}
    with pytest.raises(ConversionError, match="opencv does not take If"):
        to_onnx(net, inputs=inputs, target="opencv")


def test_an_output_of_a_loop_is_copied() -> None:
    net = c2.load(MODELS / "control_while")
    graph = to_onnx(net, inputs=COUNTED, target="opencv").graph
    (loop,) = (node for node in graph.node if node.op_type == "Loop")
    outputs = [value.name for value in graph.output]
    assert outputs == [value.name for value in to_onnx(net, inputs=COUNTED).graph.output]
    assert not {*outputs} & {*loop.output}
    assert [node.op_type for node in graph.node if node.output[0] in outputs] == ["Identity"]


def test_omitted_outputs_of_an_lstm_are_named() -> None:
    net = c2.load(MODELS / "lstm")

    def outputs(target: str) -> list[str]:
        model = to_onnx(net, outputs=["rnn/hidden_state_all", "rnn/cell_state_last"], target=target)
        (lstm,) = (node for node in model.graph.node if node.op_type == "LSTM")
        return list(lstm.output)

    assert [bool(name) for name in outputs("openvino")] == [True, False, True]
    assert all(outputs("opencv"))


def test_rows_are_gathered_by_a_vector() -> None:
    graph = to_onnx(c2.load(MODELS / "gru"), target="opencv").graph
    (loop,) = (node for node in graph.node if node.op_type == "Loop")
    (body,) = proto_bodies(loop)
    made = {name: node.op_type for node in body.node for name in node.output}
    gathers = [node for node in body.node if node.op_type == "Gather"]
    assert gathers
    assert {made[node.input[1]] for node in gathers} == {"Reshape"}
