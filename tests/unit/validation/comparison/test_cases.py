"""Comparisons of sides that do not return the same outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from support.nets import net, op

from caffe2_backend import validate
from caffe2_bridge import Model, RunError
from caffe2_frontend import to_onnx
from caffe2_validation.comparison.outvoting import weaker
from caffe2_validation.runtimes.base import AnyModel, Form, Loaded, Value
from caffe2_validation.runtimes.time_budget import OutOfTimeError
from caffe2_validation.sides import Side

X = {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}
MODEL = Model.of(net(op("Relu", "x", "y"), op("Exp", "x", "z"), outputs="y z"))


class Fixed:
    """A runtime that returns given values."""

    form: Form = "caffe2"

    def __init__(self, name: str, error: Exception | None = None, **values: Value) -> None:
        self.name, self._values, self._error = name, values, error

    def missing(self) -> str:
        return ""

    def versions(self) -> dict[str, str]:
        return {}

    def load(self, _model: AnyModel) -> Loaded:
        return self

    def run(self, _inputs: Mapping[str, Value], _outputs: Sequence[str] | None = None) -> dict[str, Value]:
        if self._error is not None:
            raise self._error
        return dict(self._values)


ONE, TWO = np.ones(3, np.float32), np.full(3, 2, np.float32)


def test_an_agreement_says_what_was_compared() -> None:
    sigmoid = Model.of(net(op("Sigmoid", "x", "y")))
    model = to_onnx(sigmoid, inputs={"x": ("float32", [3, 4])})
    here = ("onnxruntime-cpu", "onnx-reference")
    tail = "; not compared with Caffe2)"
    net_alone = validate(sigmoid, X, here)
    assert net_alone.verdict_text == f"agree (runtimes of the export{tail}"
    assert net_alone.to_dict()["compared_with_caffe2"] is False
    assert "not the export." in net_alone.caveat
    assert validate(sigmoid, X, ("workspace", *here)).verdict_text == net_alone.verdict_text
    assert validate(model, X, here).verdict_text == f"agree (runtimes of the ONNX model{tail}"
    assert "not its import." in validate(model, X, here).caveat
    assert validate(model, X, (*here, "workspace")).verdict_text == f"agree (the ONNX model and the import{tail}"
    both = validate(sigmoid, X, here, other=model)
    assert both.verdict_text == f"agree (the export of the model and the other model{tail}"
    assert validate(sigmoid, X, [Fixed("a", y=ONE), Fixed("b", y=TWO)]).verdict_text == "disagree"


def test_real_caffe2_counts_if_an_output_was_compared_with_it() -> None:
    assert validate(MODEL, X, [Fixed("caffe2", y=ONE), Fixed("b", y=ONE)]).verdict_text == "agree"
    assert validate(MODEL, X, [Fixed("b", y=ONE), Fixed("caffe2", y=ONE)]).compared_with_caffe2
    alone = validate(MODEL, X, [Fixed("a", y=ONE), Fixed("b", y=ONE), Fixed("caffe2", z=ONE)])
    assert (alone.compared_with_caffe2, alone.verdict_text) == (False, "could not run")


def test_common_outputs_are_compared_and_the_others_noted() -> None:
    report = validate(MODEL, X, [Fixed("a", y=ONE), Fixed("b", y=ONE, z=TWO)], matrix=True)
    assert report.agrees, report.to_json()
    assert [result.name for result in report.results] == ["y"]
    assert "left out of the comparison: b returns 'z', and a does not" in report.notes
    assert report.pairs["a", "b"].agrees
    back = validate(MODEL, X, [Fixed("b", y=ONE, z=TWO), Fixed("a", y=TWO)])
    assert back.exit_code == 1
    assert "left out of the comparison: b returns 'z', and a does not" in back.notes


def test_sides_with_no_output_in_common_are_not_compared() -> None:
    report = validate(MODEL, X, [Fixed("a", y=ONE), Fixed("b", z=TWO)], matrix=True)
    assert report.exit_code == 2
    assert "no output in common" in report.failures[0].reason
    assert report.pairs["a", "b"].agrees is None


def test_outputs_of_no_side_are_noted() -> None:
    report = validate(MODEL, X, [Fixed("a", y=ONE), Fixed("b", y=ONE)])
    assert "left out of the comparison: no side returns 'z'" in report.notes


def test_two_models_with_different_outputs() -> None:
    other = Model.of(net(op("Relu", "x", "y")))
    for one, two in ((MODEL, other), (other, MODEL)):
        assert validate(one, X, ("workspace",), other=two).agrees
    report = validate(
        MODEL, X, ("workspace", "onnxruntime-cpu"), other=to_onnx(other, inputs={"x": ("float32", [3, 4])})
    )
    assert report.agrees, report.to_json()
    assert any("returns 'z'" in note for note in report.notes)


def test_quantized_outputs_within_one_step_agree_with_a_note() -> None:
    a, b = np.array([3, 9], np.uint8), np.array([3, 8], np.uint8)
    report = validate(MODEL, X, [Fixed("a", y=a), Fixed("b", y=b)])
    assert report.agrees
    assert (
        "'y' agrees within one quantization step (b): 1 of 2 elements differ by one quantization step" in report.notes
    )


def test_stages_are_reported() -> None:
    from caffe2_validation.api import run_validation
    from caffe2_validation.options import ValidationOptions

    stages: list[str] = []
    options = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"))
    run_validation(MODEL, X, None, options, stages.append)
    assert stages == ["converting", "running workspace", "running onnxruntime-cpu", "comparing"]


CAFFE2, ONNXRUNTIME = Fixed("caffe2", y=ONE, z=TWO), Fixed("onnxruntime-cpu", y=ONE, z=TWO)


def test_the_reference_evaluator_does_not_outvote_caffe2_and_onnxruntime() -> None:
    weak = Fixed("onnx-reference", y=TWO, z=TWO)
    for runtimes in ([CAFFE2, ONNXRUNTIME, weak], [weak, CAFFE2, ONNXRUNTIME], [ONNXRUNTIME, weak, CAFFE2]):
        report = validate(MODEL, X, runtimes, lockstep=True)
        assert report.agrees, report.to_json()
        found = [result for result in report.results if result.outvoted]
        assert {result.name for result in found} == {"y"}
        assert all("(outvoted: caffe2 and onnxruntime-cpu agree)" in result.difference.reason for result in found)
        assert [result["outvoted"] for result in report.to_dict()["results"] if "outvoted" in result] == [True] * len(
            found
        )


def test_an_evaluator_of_the_net_is_a_witness_too() -> None:
    weak = Fixed("onnx-reference", y=TWO, z=TWO)
    net_evaluator = Fixed("pytorch", y=ONE, z=TWO)
    report = validate(MODEL, X, [ONNXRUNTIME, weak, net_evaluator])
    assert report.agrees, report.to_json()
    assert [r.side for r in report.results if r.outvoted] == ["onnx-reference"]
    assert "(outvoted: pytorch and onnxruntime-cpu agree)" in report.results[0].difference.reason
    other = Fixed("pytorch", y=TWO, z=TWO)
    assert validate(MODEL, X, [ONNXRUNTIME, weak, other]).exit_code == 1
    assert validate(MODEL, X, [CAFFE2, ONNXRUNTIME, other]).exit_code == 1  # it was asked for
    sides = [Side(runtime.name, runtime, MODEL) for runtime in (CAFFE2, ONNXRUNTIME)]
    by_default = Side("pytorch", other, MODEL, is_optional=True)
    assert weaker([*sides, by_default], ("caffe2", "onnxruntime-cpu")) == {"pytorch"}
    assert weaker([sides[1], by_default], ("pytorch", "onnxruntime-cpu")) == set()


def test_the_reference_evaluator_counts_where_the_others_do_not_agree() -> None:
    other = Fixed("onnxruntime-cpu", y=TWO, z=TWO)
    assert validate(MODEL, X, [CAFFE2, other, Fixed("onnx-reference", y=TWO, z=TWO)]).exit_code == 1
    assert validate(MODEL, X, [CAFFE2, Fixed("onnx-reference", y=TWO, z=TWO)]).exit_code == 1
    assert validate(MODEL, X, [ONNXRUNTIME, Fixed("onnx-reference", y=TWO, z=TWO)]).exit_code == 1
    broken = Fixed("onnxruntime-cpu", RunError("broken"))
    assert validate(MODEL, X, [CAFFE2, broken, Fixed("onnx-reference", y=TWO, z=TWO)]).exit_code == 1


def test_what_the_reference_evaluator_cannot_run_is_left_out() -> None:
    weak = Fixed("onnx-reference", RunError("onnx-reference: ValueError: no such operator"))
    report = validate(MODEL, X, [CAFFE2, ONNXRUNTIME, weak])
    assert report.agrees, report.to_json()
    assert (
        "left out of the comparison: onnx-reference, given: onnx-reference: ValueError: no such operator"
        in report.notes
    )
    assert validate(MODEL, X, [CAFFE2, weak]).exit_code == 2
    assert validate(MODEL, X, [weak, CAFFE2, ONNXRUNTIME]).exit_code == 2  # nothing was compared with it


def test_a_side_that_takes_too_long_is_left_out() -> None:
    slow = Fixed("onnx-reference", OutOfTimeError("it did not answer within 20 seconds"))
    report = validate(MODEL, X, [CAFFE2, Fixed("a", y=ONE, z=TWO), slow])
    assert report.agrees, report.to_json()
    note = "left out of the comparison: onnx-reference, from case given on: it did not answer within 20 seconds"
    assert note in report.notes
    assert validate(MODEL, X, [CAFFE2, slow]).exit_code == 2  # nothing was compared


@pytest.mark.parametrize("hollow", [np.full(3, np.nan, np.float32), ONE[:0], np.zeros(0, np.int32)])
def test_outputs_without_a_value_to_compare(hollow: np.ndarray) -> None:  # type: ignore[type-arg] # of any dtype
    sides = [Fixed("caffe2", y=hollow, z=hollow), Fixed("a", y=hollow, z=hollow)]
    report = validate(MODEL, X, sides)
    assert report.verdict_text == "agree (shapes and dtypes of outputs; no number is compared)"
    assert not report.compared_with_caffe2
    assert "no number was compared" in report.proof
    half = [Fixed("caffe2", y=hollow, z=ONE), Fixed("a", y=hollow, z=ONE)]
    assert any(note.endswith("there are no elements: 'y'") for note in validate(MODEL, X, half).notes)


def test_a_nan_on_one_side_is_a_difference() -> None:
    nan = np.full(3, np.nan, np.float32)
    for one, other in ((nan, ONE), (ONE, nan)):
        assert validate(MODEL, X, [Fixed("caffe2", y=one, z=ONE), Fixed("a", y=other, z=ONE)]).exit_code == 1


@pytest.mark.torch
def test_inputs_of_other_libraries() -> None:
    import torch

    report = validate(MODEL, {"x": torch.ones(3, 4)}, ["workspace", "onnx-reference"])
    assert report.agrees, report.to_json()


def test_an_input_that_is_not_a_tensor() -> None:
    for given in (None, "text", object()):
        with pytest.raises(RunError, match="'x'"):
            validate(MODEL, {"x": given}, ["workspace", "onnx-reference"])
