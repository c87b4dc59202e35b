"""Inputs with defaults through an import: what the net takes, what an export of it takes, and what a note says."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest

from caffe2_backend import Predictor, RunError, run_model, to_netdef, validate
from caffe2_backend.runtime.calls.profiling import profile_model
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '
ADDED = HEAD + "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 1}> { y = Add(x, w) }"
RESHAPED = (
    HEAD + "g (float[N] x, int64[2] s, float w) => (float[a, b] y) <int64[2] s = {2, 3}, float w = {1}> "
    "{ r = Reshape(x, s) y = Add(r, w) }"
)
RETURNED = HEAD + "g (float[2] x, float[2] w) => (float[2] y, float[2] w) <float[2] w = {1, 1}> { y = Neg(x) }"
X, W = np.zeros(2, np.float32), np.full(2, 100, np.float32)


def parsed(text: str, version: int = 8) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    model.ir_version = version
    return model


def defaults(model: onnx.ModelProto) -> list[str]:
    filled = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name in filled]


@pytest.mark.parametrize("foreign", ["error", "carry"])
@pytest.mark.parametrize("text", [ADDED, RETURNED])
def test_a_default_stays_one(text: str, foreign: str) -> None:
    net = to_netdef(parsed(text), foreign=foreign)  # type: ignore[arg-type] # a choice
    assert (net.inputs, list(net.params)) == (("x",), ["w"])
    again = to_onnx(net)
    assert defaults(again) == ["w"]
    assert [value.name for value in again.graph.input] == ["x", "w"]
    restored = to_netdef(again, foreign=foreign)  # type: ignore[arg-type] # a choice
    for model in (net, again, restored):
        predictor = Predictor(model)
        given, own = predictor.run({"x": X, "w": W}), predictor.run({"x": X})
        assert list(given) == [value.name for value in again.graph.output]
        if text is ADDED:
            assert (given["y"].tolist(), own["y"].tolist()) == ([100, 100], [1, 1])
        else:
            assert (given["w"].tolist(), own["w"].tolist()) == ([100, 100], [1, 1])


def test_initializers_of_the_early_format_stay_constants_of_an_export() -> None:
    net = to_netdef(parsed(ADDED, 3))
    assert defaults(to_onnx(net)) == []
    assert Predictor(net).run({"x": X, "w": W})["y"].tolist() == [100, 100]


def test_a_described_default_is_a_plain_input() -> None:
    again = to_onnx(to_netdef(parsed(ADDED)), inputs={"w": ("float32", [2])})
    assert ([value.name for value in again.graph.input], defaults(again)) == (["x", "w"], [])


def test_half_precision_defaults() -> None:
    for io, dtype in (("float16", np.float16), ("float32", np.float32)):
        again = to_onnx(to_netdef(parsed(ADDED)), fp16=True, fp16_io=io)  # type: ignore[arg-type] # a choice
        assert defaults(again) == ["w"]
        onnx.checker.check_model(again, full_check=True)
        predictor = Predictor(again)
        assert predictor.run({"x": X.astype(dtype)})["y"].tolist() == [1, 1]
        assert predictor.run({"x": X.astype(dtype), "w": W.astype(dtype)})["y"].tolist() == [100, 100]


@pytest.mark.parametrize("version", [3, 8])
def test_a_default_that_becomes_an_argument_is_a_constant(version: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "caffe2_bridge"):
        net = to_netdef(parsed(RESHAPED, version))
    reason = "the defaults of inputs are constants of the net, which takes no other values for them: 's'"
    assert (reason in caplog.text) == (version > 3)
    x = np.arange(6, dtype=np.float32)
    assert Predictor(net).run({"x": x, "w": np.float32(2)})["y"].tolist() == [[2, 3, 4], [5, 6, 7]]
    with pytest.raises(RunError, match="input 's' does not exist"):
        Predictor(net).run({"x": x, "s": np.array([3, 2])})
    y, *_ = run_model(parsed(RESHAPED, version), {"x": x, "s": np.array([3, 2])})
    assert y.shape == (3, 2)


@pytest.mark.parametrize("version", [3, 8])
@pytest.mark.parametrize("text", [ADDED, RESHAPED])
def test_validation_feeds_defaults_to_every_side(version: int, text: str) -> None:
    model = parsed(text, version)
    given = {"x": X, "w": W} if text is ADDED else {"x": np.arange(6, dtype=np.float32), "w": np.array(7, np.float32)}
    for tried in (model, to_netdef(model)):
        report = validate(tried, given, ("onnxruntime-cpu", "onnx-reference", "workspace"))
        assert (report.exit_code, report.failures) == (0, ())
        assert len({result.side for result in report.results}) == 2
        assert all(result.difference.max_abs == 0 for result in report.results)


def test_a_parameter_of_a_net_is_replaced_on_every_side() -> None:
    net = Model.of(to_netdef(parsed(ADDED, 3)).predict_net, to_netdef(parsed(ADDED, 3)).init_net)
    report = validate(net, {"x": X, "w": W}, ("onnxruntime-cpu", "onnx-reference", "workspace"))
    assert (report.exit_code, len(report.results)) == (0, 2)


def test_names_that_are_not_inputs() -> None:
    model = parsed(ADDED)
    words = "input 'ww' does not exist: the model has the inputs .*'x'"
    for tried in (model, to_netdef(model)):
        with pytest.raises(RunError, match=words):
            validate(tried, {"x": X, "ww": W}, ("onnxruntime-cpu", "workspace"))
    with pytest.raises(RunError, match=words):
        profile_model(to_netdef(model), {"x": X, "ww": W}, runs=1)
    assert profile_model(to_netdef(model), {"x": X, "w": W}, runs=1).operators


def test_an_input_of_either_model_is_given() -> None:
    one, other = parsed(ADDED), parsed(ADDED.replace("float[2] x,", "float[2] x, float[2] unread,"))
    report = validate(one, {"x": X, "unread": X}, ("onnxruntime-cpu",), other=other)
    assert report.exit_code == 0


def test_a_net_of_an_input_alone() -> None:
    net = NetDef(external_input=["x", "z"], external_output=["x"])
    assert Predictor(Model.of(net)).run({"x": W, "z": X})["x"].tolist() == [100, 100]
