"""Validation of training nets: losses, gradients and updates, step by step from the reference's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from support.training import Program, classifier_data, linear_classifier, read_program

from caffe2_bridge.diagnostics import OptionError, RunError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx
from caffe2_validation import ValidationReport, validate
from caffe2_validation.comparison.training_steps import training_step
from caffe2_validation.runtimes.onnx_runtime import OnnxRuntime

BOTH = ["workspace", "onnxruntime-cpu"]


@pytest.fixture(scope="module")
def mlp() -> Program:
    return read_program("mlp_adam")


def feeds(program: Program) -> dict[str, Any]:
    return {f"{i}/{name}": value for i, feed in enumerate(program.feeds) for name, value in feed.items()}


def linear() -> Model:
    return Model.of(*linear_classifier())


def operator_of(net: NetDef, op_type: str) -> OperatorDef:
    return next(op for op in net.op if op.type == op_type)


def with_operator(model: Model, op_type: str, **changes: Any) -> Model:
    """Return the model in which one operator has another type (``type=``), or another float argument."""
    net = NetDef()
    net.CopyFrom(model.predict_net)
    op = operator_of(net, op_type)
    for name, value in changes.items():
        if name == "type":
            op.type = value
        else:
            next(arg for arg in op.arg if arg.name == name).f = value
    return Model(net, model.init)


def wrong(report: ValidationReport) -> set[str]:
    return {result.name for result in report.results if not result.difference.agrees}


@pytest.mark.parametrize(
    "runtimes", [BOTH, pytest.param(["caffe2", *BOTH], marks=pytest.mark.oracle)], ids=["own", "caffe2"]
)
def test_steps_agree(mlp: Program, runtimes: list[str]) -> None:
    report = validate(mlp.model, feeds(mlp), runtimes, steps=4, lockstep=True)
    assert report.verdict == "agree"
    assert report.cases == ("step 1", "step 2", "step 3", "step 4")
    names = {result.name for result in report.results}
    assert names == {"loss", *(f"{name}_updated" for name in mlp.final),
                     *(f"{name}_grad" for name in mlp.final if f"{name}_first_moment" in mlp.final)}  # fmt: skip
    (own,) = [note for note in report.notes if note.startswith(f"loss of {runtimes[-1]} with its own parameters: ")]
    losses = [float(text) for text in own.rpartition(": ")[2].split(", ")]
    np.testing.assert_allclose(losses, mlp.losses[:4], rtol=1e-4)


def test_inputs_are_generated() -> None:
    report = validate(linear(), None, BOTH, described={"label": ("int32", ["N"])}, steps=4)
    assert report.verdict == "agree"
    assert len(report.cases) == 4
    assert "accuracy" in {result.name for result in report.results}


def test_plain_inputs_are_those_of_every_step() -> None:
    report = validate(linear(), classifier_data(5), BOTH, steps=2)
    assert (report.verdict, report.cases) == ("agree", ("step 1", "step 2"))


@pytest.mark.parametrize(
    ("changes", "place", "blob"),
    [
        (("SigmoidGradient", {"type": "TanhGradient"}), "mlp_adam[9] SigmoidGradient", "h2_w_grad"),
        (("ReluGradient", {"type": "SigmoidGradient"}), "mlp_adam[11] ReluGradient", "h1_w_grad"),
        (("LearningRate", {"base_lr": -0.03}), "mlp_adam[14] LearningRate", "h1_w_updated"),
        (("Adam", {"beta1": 0.8}), "mlp_adam[15] Adam", "h1_w_first_moment_updated"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_first_wrong_operator_is_named(mlp: Program, changes: Any, place: str, blob: str) -> None:
    report = validate(
        mlp.model, feeds(mlp), ["workspace"], other=with_operator(mlp.model, changes[0], **changes[1]), steps=2,
        lockstep=True,
    )  # fmt: skip
    assert report.verdict == "disagree"
    assert blob in wrong(report)
    assert [found.operator for found in report.divergences] == [place]


@pytest.mark.oracle
def test_real_caffe2_names_the_first_wrong_gradient(mlp: Program) -> None:
    bad = with_operator(mlp.model, "SigmoidGradient", type="TanhGradient")
    report = validate(mlp.model, feeds(mlp), ["caffe2"], other=bad, steps=1, lockstep=True)
    assert [found.op_type for found in report.divergences] == ["SigmoidGradient"]


def test_an_export_with_a_wrong_gradient(mlp: Program) -> None:
    good = to_onnx(mlp.model, inputs=mlp.inputs)
    assert validate(mlp.model, feeds(mlp), BOTH, other=good, steps=2).verdict == "agree"
    bad = to_onnx(with_operator(mlp.model, "SigmoidGradient", type="TanhGradient"), inputs=mlp.inputs)
    report = validate(mlp.model, feeds(mlp), BOTH, other=bad, steps=2, lockstep=True)
    assert {"h1_w_grad", "h1_b_grad"}.isdisjoint({result.name for result in report.results})  # not outputs of both
    assert "h1_w_updated" in wrong(report)
    assert [found.operator for found in report.divergences] == ["mlp_adam[9] SigmoidGradient"]


def test_an_onnx_model_alone(mlp: Program) -> None:
    model = to_onnx(mlp.model, inputs=mlp.inputs)
    runtimes = [OnnxRuntime("cpu"), OnnxRuntime("cpu").but(optimization="none")]
    report = validate(model, feeds(mlp), runtimes, steps=2)
    assert (report.verdict, report.cases) == ("agree", ("step 1", "step 2"))
    assert "h1_w_updated" in {result.name for result in report.results}


def test_an_update_that_is_far_too_small(mlp: Program) -> None:
    """Compare parameters that are within the tolerance of their values, and whose changes are not."""
    tiny = [with_operator(mlp.model, "LearningRate", base_lr=rate) for rate in (-1e-7, -2e-7)]
    report = validate(tiny[0], feeds(mlp), ["workspace"], other=tiny[1], steps=1)
    assert "pred_b_updated" in wrong(report)
    (found,) = [result.difference for result in report.results if result.name == "pred_b_updated"]
    assert found.reason.startswith("the update: ")
    chosen = validate(tiny[0], feeds(mlp), ["workspace"], other=tiny[1], steps=1, atol=1e-5)
    assert "pred_b_updated" not in wrong(chosen)


def test_chosen_outputs_are_one_step() -> None:
    report = validate(linear(), classifier_data(4), BOTH, outputs=["loss"])
    assert report.cases == ("given",)
    assert {result.name for result in report.results} == {"loss"}


def test_the_step_of_a_net() -> None:
    step = training_step(linear())
    assert step is not None
    assert isinstance(step.model, Model)
    assert set(step.model.inputs) == {"data", "label", "w", "b", "w_momentum", "iter"}
    assert step.updated["w"] == "w_updated"
    assert step.described["iter"] == (np.dtype(np.int64), (1,))
    assert training_step(Model.of(NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])]))) is None


def test_the_step_of_an_onnx_model() -> None:
    model = to_onnx(linear(), inputs={"data": ("float32", ["N", 4]), "label": ("int32", ["N"])})
    step = training_step(model)
    assert step is not None
    assert isinstance(step.model, onnx.ModelProto)
    assert {value.name for value in step.model.graph.output} == {"loss", "accuracy", *step.updated.values()}
    onnx.checker.check_model(step.model, full_check=True)
    del model.graph.initializer[:]
    assert training_step(model) is None


def test_steps_must_be_positive() -> None:
    with pytest.raises(OptionError, match="at least 1"):
        validate(linear(), None, BOTH, steps=0)


def test_given_parameters_are_those_of_the_first_step() -> None:
    model, data = linear(), classifier_data(6)
    exported = to_onnx(model, inputs={name: (value.dtype, value.shape) for name, value in data.items()})
    bias = np.array([3, -2, 1], np.float32)
    scores = data["data"] @ model.params["w"].T + bias
    rows = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(6), data["label"]]
    for tried in (model, exported):
        report = validate(tried, {**data, "b": bias}, BOTH, steps=1)
        assert wrong(report) == set()
        losses = [note.rpartition(": ")[2] for note in report.notes if " with its own parameters: " in note]
        assert {round(float(text), 3) for text in losses} == {round(float(rows.mean()), 3)}


@pytest.mark.parametrize("prefix", ["", "0/"])
def test_names_that_are_not_inputs_of_a_step(prefix: str) -> None:
    given = {f"{prefix}{name}": value for name, value in classifier_data(6).items()}
    with pytest.raises(RunError, match="input 'lable' does not exist: the model has the inputs 'label', "):
        validate(linear(), given | {f"{prefix}lable": np.zeros(6, np.int32)}, BOTH)
