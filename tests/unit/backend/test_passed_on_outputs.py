"""Outputs that are inputs, or initializers, keep their names: in runs, exports, imports and validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from caffe2_backend import Predictor, Workspace, prepare, to_netdef, validate
from caffe2_backend.runtime import SessionOptions
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '
MASKED = HEAD + "g (float[N,3] x, bool[N,3] mask) => (float[N,3] y, bool[N,3] mask) { y = Relu(x) }"
FILLED = HEAD + "g (float[N] x) => (float[2] w, float[N] y, float[N] x) <float[2] w = {1, 2}> { y = Relu(x) }"
X, MASK = np.array([[-1, 0, 1]], np.float32), np.array([[True, False, True]])


@pytest.mark.parametrize("text", [MASKED, FILLED])
@pytest.mark.parametrize("foreign", ["error", "carry"])
def test_names_and_values(text: str, foreign: Any) -> None:
    model = onnx.parser.parse_model(text)
    names = [value.name for value in model.graph.output]
    given = {"x": X, "mask": MASK} if text is MASKED else {"x": X[0]}
    net = to_netdef(model, foreign=foreign)
    again = to_onnx(net)
    assert [value.name for value in again.graph.output] == names
    onnx.checker.check_model(again, full_check=True)
    for tried in (model, net, again, to_netdef(again, foreign=foreign)):
        predictor = Predictor(tried)
        assert list(predictor.outputs) == names
        for found in (predictor.run(given), predictor.run(given), *predictor.run_many([given] * 2)):
            assert list(found) == names
            assert found["y"].tolist() == np.maximum(given["x"], 0).tolist()
            for name, value in given.items():
                if name in names:
                    assert found[name].tolist() == value.tolist()
    assert [value.tolist() for value in prepare(model).run(given)] == [found[name].tolist() for name in names]


@pytest.mark.parametrize("text", [MASKED, FILLED])
def test_validation(text: str) -> None:
    model = onnx.parser.parse_model(text)
    for tried in (model, to_netdef(model)):
        report = validate(tried, runtimes=("onnxruntime-cpu", "onnx-reference", "workspace"))
        assert (report.exit_code, report.failures) == (0, ())
        assert {result.name for result in report.results} == {value.name for value in model.graph.output}


@pytest.mark.parametrize("io", ["float16", "float32"])
def test_half_precision(io: Any) -> None:
    net = to_netdef(onnx.parser.parse_model(MASKED))
    model = to_onnx(net, outputs=["x", "y", "mask"], fp16=True, fp16_io=io)
    found = Predictor(model).run({"x": X.astype(io), "mask": MASK})
    assert {name: (value.dtype.name, value.tolist()) for name, value in found.items()} == {
        "x": (io, X.tolist()),
        "y": (io, [[0, 0, 1]]),
        "mask": ("bool", MASK.tolist()),
    }


def test_the_output_of_a_blob_that_is_overwritten_is_its_last_value() -> None:
    net = NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["x"])], external_input=["x"], external_output=["x"])
    assert Predictor(Model.of(net)).run({"x": X})["x"].tolist() == [[0, 0, 1]]
    model = to_onnx(net, inputs={"x": ("float32", ["N", 3])})
    assert ([value.name for value in model.graph.input], len(model.graph.output)) == (["x"], 1)
    assert next(iter(Predictor(model).run({"x": X}).values())).tolist() == [[0, 0, 1]]


def test_a_passed_on_input_of_an_operator_and_of_several_devices() -> None:
    net = NetDef(
        op=[OperatorDef(type="Relu", input=["x"], output=["y"])],
        external_input=["x", "mask"],
        external_output=["mask", "x", "y"],
    )
    stand_in = SessionOptions(stand_in={"cuda:0": "cpu"})
    staged = NetDef()
    staged.CopyFrom(net)
    staged.op[0].device_option.device_type = 1
    for model, device, options in (
        (net, None, SessionOptions()),
        (net, "cuda:0", stand_in),
        (staged, "cuda:0", stand_in),
    ):
        found = Predictor(Model.of(model), device, options=options).run({"x": X, "mask": MASK})
        assert {name: value.tolist() for name, value in found.items()} == {
            "mask": MASK.tolist(),
            "x": X.tolist(),
            "y": [[0, 0, 1]],
        }


def test_a_state_that_is_passed_on() -> None:
    net = NetDef(
        op=[OperatorDef(type="Add", input=["x", "h"], output=["y"])],
        external_input=["x", "h", "k"],
        external_output=["y", "h", "k"],
    )
    steps = [{"x": X, "h": X, "k": X}, {"x": X}, {"x": 2 * X}, {"x": X, "k": MASK}]
    found = list(Predictor(Model.of(net)).run_many(steps, {"h": "y", "k": "k"}))
    assert [step["y"].tolist()[0][2] for step in found] == [2, 3, 5, 6]
    assert [step["h"].tolist()[0][2] for step in found] == [1, 2, 3, 5]
    assert [step["k"].tolist() for step in found] == [X.tolist()] * 3 + [MASK.tolist()]


def test_a_workspace_leaves_the_blob() -> None:
    net = to_netdef(onnx.parser.parse_model(MASKED)).predict_net
    workspace = Workspace()
    workspace.feed("x", X)
    workspace.run_net_once(net)  # nothing reads the mask
    assert not workspace.has_blob("mask")
