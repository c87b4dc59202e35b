"""Exports of training nets: one model with updated parameters as inputs and outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from support.training import Program, classifier_data, linear_classifier, read_program

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import ExportOptions, check, convert, save_onnx, to_onnx
from caffe2_frontend.interop.metadata.training import read_training_metadata

LINEAR: dict[str, Any] = {"data": ("float32", ["N", 4]), "label": ("int32", ["N"])}


@pytest.fixture(scope="module")
def mlp() -> Program:
    return read_program("mlp_adam")


def run(model: bytes, feeds: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the loop that users write: the results of each step, and the state at the end."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    pairs = json.loads(session.get_modelmeta().custom_metadata_map["caffe2.parameters.updated"])
    names, results, state = [value.name for value in session.get_outputs()], [], {}
    for feed in feeds:
        found = dict(zip(names, session.run(names, {**feed, **state}), strict=True))
        state = {name: found[fed] for name, fed in pairs.items()}
        results.append(found)
    return results, state


def test_real_caffe2s_losses_and_parameters(mlp: Program) -> None:
    model = to_onnx(mlp.train, mlp.init, inputs=mlp.inputs)
    results, state = run(model.SerializeToString(), mlp.feeds)
    np.testing.assert_allclose([found[mlp.loss] for found in results], mlp.losses, rtol=1e-5)
    assert state.keys() == mlp.final.keys()
    for name, value in mlp.final.items():
        np.testing.assert_allclose(state[name], value, rtol=5e-3, atol=5e-4, err_msg=name)


def test_the_interface(mlp: Program) -> None:
    model = to_onnx(mlp.train, mlp.init, inputs=mlp.inputs)
    found = read_training_metadata(model)
    assert found is not None
    assert found.losses == ("loss",)
    assert found.updates.keys() == mlp.final.keys()
    assert {value.name for value in model.graph.input} == {"data", "label", *found.updates}
    assert {value.name for value in model.graph.output} == {"loss", *found.updates.values()}
    defaults = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert defaults["h1_w"].shape == (16, 8)
    described = {value.name: value.doc_string for value in model.graph.input}
    assert "feeds it in the next call" in described["h1_w"]


def test_the_model_in_a_file(mlp: Program, tmp_path: Path) -> None:
    converted = convert(mlp.train, mlp.init, ExportOptions(inputs=mlp.inputs))
    save_onnx(converted, tmp_path / "train.onnx", external_data=64)
    onnx.checker.check_model(tmp_path / "train.onnx", full_check=True)
    results, _ = run(str(tmp_path / "train.onnx"), mlp.feeds[:3])  # type: ignore[arg-type] # a path, too
    np.testing.assert_allclose([found[mlp.loss] for found in results], mlp.losses[:3], rtol=1e-5)


@pytest.mark.parametrize("opset", [13, 20, 21])
def test_opsets(opset: int) -> None:
    train, init = linear_classifier()
    data = classifier_data(6)
    wanted = run(to_onnx(train, init, inputs=LINEAR).SerializeToString(), [data] * 3)
    found = run(to_onnx(train, init, inputs=LINEAR, opset=opset).SerializeToString(), [data] * 3)
    for name, value in wanted[1].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-6, err_msg=name)
    assert found[1]["iter"] == 3


def test_outputs_are_the_loss_the_metrics_and_the_updates() -> None:
    train, init = linear_classifier()
    names = [value.name for value in to_onnx(train, init, inputs=LINEAR).graph.output]
    assert names[:2] == ["loss", "accuracy"]
    assert len(names) == 6


def test_a_note_says_so() -> None:
    train, init = linear_classifier()
    codes = [finding.code for finding in check(train, init, inputs=LINEAR).findings]
    assert "training-net" in codes
    asked = check(train, init, options=ExportOptions(inputs=LINEAR, training=True))
    assert "training-net" not in [finding.code for finding in asked.findings]


def test_chosen_outputs_are_not_training_unless_asked_for() -> None:
    train, init = linear_classifier()
    plain = to_onnx(train, init, inputs=LINEAR, outputs=["loss"])
    assert [value.name for value in plain.graph.output] == ["loss"]
    assert [value.name for value in plain.graph.input] == ["data", "label"]
    asked = to_onnx(train, init, inputs=LINEAR, outputs=["prob"], training=True)
    found = read_training_metadata(asked)
    assert found is not None
    assert asked.graph.output[0].name == "prob"
    assert len(found.updates) == 4
    assert found.losses == ()


def test_without_training_parameters_are_constants() -> None:
    train, init = linear_classifier()
    model = to_onnx(train, init, inputs=LINEAR, training=False)
    assert [value.name for value in model.graph.input] == ["data", "label"]
    assert read_training_metadata(model) is None


def test_without_an_init_net_the_parameters_have_no_defaults() -> None:
    train, _ = linear_classifier()
    shapes = {"w": ("float32", [3, 4]), "b": ("float32", [3]), "w_momentum": ("float32", [3, 4]),
              "iter": ("int64", [1]), "rate": ("float32", [1]), "one": ("float32", [1]), "minus": ("float32", [1]),
              "mutex": ("int64", [1])}  # fmt: skip
    model = to_onnx(train, inputs={**LINEAR, **shapes})
    found = read_training_metadata(model)
    assert found is not None
    assert set(found.updates) == {"w", "b", "w_momentum", "iter"}
    assert not {tensor.name for tensor in model.graph.initializer}.intersection(shapes)


def test_what_is_not_a_training_net_is_refused() -> None:
    forward = NetDef(name="n", op=[OperatorDef(type="Relu", input=["x"], output=["y"])])
    with pytest.raises(OptionError, match="no gradient operators"):
        to_onnx(forward, inputs={"x": ("float32", ["N"])}, training=True)
    with pytest.raises(OptionError, match="fp16"):
        to_onnx(forward, inputs={"x": ("float32", ["N"])}, training=True, fp16=True)


def test_metadata_that_does_not_fit_is_ignored() -> None:
    train, init = linear_classifier()
    model = to_onnx(train, init, inputs=LINEAR)
    del model.graph.output[2:]
    assert read_training_metadata(model) is None


def test_labels_that_are_not_described() -> None:
    train, init = linear_classifier()
    model = to_onnx(train, init)
    (label,) = [value for value in model.graph.input if value.name == "label"]
    assert len(label.type.tensor_type.shape.dim) == 1
