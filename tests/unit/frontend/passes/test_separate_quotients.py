"""Integer quotients of 1 stay apart from products: onnxruntime would divide what the product multiplies."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from conformance.recording import operator
from support.exports import node_types

from caffe2_backend import Predictor, Workspace, to_netdef
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

ONE = [operator("GivenTensorInt64Fill", [], ["one"], shape=[1], values=[1])]
PAIR = [operator("Div", ["one", "d"], ["q"]), operator("Mul", ["q", "y"], ["z"])]
D, Y = np.array([5, 1, -1, 3, -2, 7]), np.array([5, 4, 3, -9, 8, 6])
EXPECTED = [0, 4, -3, 0, 0, 0]


def model_of(ops: list[OperatorDef], init: list[OperatorDef] = ONE) -> Model:
    net = NetDef(op=ops, external_input=["d", "y", "one"], external_output=["z"])
    return Model.of(net, NetDef(op=init))


def run(model: Any, level: onnxruntime.GraphOptimizationLevel, given: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [value.tolist() for value in session.run(None, given)]


@pytest.mark.parametrize("numpy_type", [np.int32, np.int64])
@pytest.mark.parametrize("order", [["q", "y"], ["y", "q"]])
def test_integers(numpy_type: Any, order: list[str]) -> None:
    fill = operator("GivenTensorIntFill", [], ["one"], shape=[1], values=[1])
    ops = [PAIR[0], operator("Mul", order, ["z"])]
    model = model_of(ops, ONE if numpy_type is np.int64 else [fill])
    given = {"d": D.astype(numpy_type), "y": Y.astype(numpy_type)}
    exported = to_onnx(model, inputs={name: (value.dtype, [None]) for name, value in given.items()})
    assert list(node_types(exported.graph)) == ["Div", "Mul", "Mul", "Mul"]
    for level in (
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    ):
        assert run(exported, level, given) == [EXPECTED]
    again = to_netdef(exported)
    assert [op.type for op in again.predict_net.op] == ["Div", "Mul"]
    for tried in (model, again, to_netdef(exported, foreign="carry")):
        assert Predictor(tried).run(given)["z"].tolist() == EXPECTED
        workspace = Workspace()
        workspace.run_net_once(tried.init)
        for name, value in given.items():
            workspace.feed(name, value)
        workspace.run_net_once(tried.predict_net)
        assert workspace.fetch("z").tolist() == EXPECTED


def test_in_a_body() -> None:
    body = NetDef(name="b", op=PAIR, external_input=["d", "y", "one"], external_output=["z"])
    choice = operator("If", ["c", "d", "y", "one"], ["z"])
    choice.arg.add(name="then_net").n.CopyFrom(body)
    choice.arg.add(name="else_net").n.CopyFrom(body)
    net = NetDef(op=[choice], external_input=["c", "d", "y", "one"], external_output=["z"])
    given = {"c": np.array([True]), "d": D, "y": Y}
    exported = to_onnx(net, NetDef(op=ONE), inputs={name: (value.dtype, [None]) for name, value in given.items()})
    assert run(exported, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, given) == [EXPECTED]


@pytest.mark.parametrize(
    ("ops", "fill"),
    [
        (PAIR, operator("GivenTensorInt64Fill", [], ["one"], shape=[1], values=[2])),
        (PAIR, operator("GivenTensorInt64Fill", [], ["one"], shape=[6], values=[1] * 6)),
        (PAIR, operator("ConstantFill", [], ["one"], shape=[1], value=1.0)),
        ([PAIR[0], operator("Add", ["q", "y"], ["z"], broadcast=1)], ONE[0]),
    ],
    ids=["two", "vector", "float", "sum"],
)
def test_others_stay_as_they_are(ops: list[OperatorDef], fill: OperatorDef) -> None:
    dtype = np.float32 if fill.type == "ConstantFill" else np.int64
    exported = to_onnx(model_of(ops, [fill]), inputs={"d": (dtype, [6]), "y": (dtype, [6])})
    assert list(node_types(exported.graph)) == ["Div", ops[1].type]
