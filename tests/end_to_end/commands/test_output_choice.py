"""Outputs of models as Caffe2's mobile exporter writes them: objects among them, and states that force a Scan."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.commands import call
from support.models.recorded import model_values, save_inputs
from support.paths import CAFFE2_MODELS

from caffe2_backend import Predictor, validate
from caffe2_backend.admission import load_proto
from caffe2_backend.runtime import Workspace
from caffe2_bridge import load
from caffe2_bridge.diagnostics import OptionError
from caffe2_frontend import ExportOptions, check, to_onnx

MODEL = CAFFE2_MODELS / "mobile_lstm"
OMITTED = "output 'lstm/step_workspaces' is left out"
OUTPUTS = ("lstm/hidden_state_last", "lstm/cell_state_all", "lstm/cell_state_last", "prob")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return save_inputs(MODEL, tmp_path)


def test_the_check_warns_and_says_what_to_type() -> None:
    result = call("check", MODEL)

    assert result.exit_code == 0, result.output
    assert OMITTED in result.stderr
    assert "the cell state of every step ('lstm/cell_state_all') is an output of the net" in result.stderr
    assert "--output lstm/hidden_state_last --output lstm/cell_state_last --output prob)" in result.stderr


def test_the_hint_of_the_check_gives_the_fused_operator(tmp_path: Path) -> None:
    chosen = ["--output", "lstm/hidden_state_last", "--output", "lstm/cell_state_last", "--output", "prob"]

    checked = call("check", MODEL, *chosen)
    exported = call("export", MODEL, "-o", tmp_path / "m.onnx", *chosen)

    assert (checked.exit_code, exported.exit_code) == (0, 0)
    assert "every step" not in checked.stderr + exported.stderr
    assert OMITTED not in checked.stderr + exported.stderr
    assert "LSTM" in {node.op_type for node in load_proto(tmp_path / "m.onnx").graph.node}


def test_the_export_leaves_objects_out_and_is_equal() -> None:
    model = to_onnx(load(MODEL))

    assert tuple(value.name for value in model.graph.output) == OUTPUTS
    found = Predictor(model).run(model_values(MODEL, "in"))
    for name, value in model_values(MODEL, "out").items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_an_object_that_is_asked_for_is_an_error() -> None:
    found = check(load(MODEL), options=ExportOptions(outputs=["lstm/step_workspaces"]))

    assert [finding.code for finding in found.findings if finding.severity.value == "error"] == ["undefined-output"]


def test_run_warns_and_writes_the_tensors(tmp_path: Path, inputs: Path) -> None:
    result = call("run", MODEL, "--inputs", inputs, "-o", tmp_path / "out.npz")

    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "out.npz") as file:
        assert set(file.files) == set(OUTPUTS)
        np.testing.assert_allclose(file["prob"], model_values(MODEL, "out")["prob"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["net", "onnx"])
def test_run_writes_the_chosen_outputs(tmp_path: Path, inputs: Path, form: str) -> None:
    model = MODEL
    if form == "onnx":
        model = tmp_path / "m.onnx"
        onnx.save(to_onnx(load(MODEL)), model)

    result = call("run", model, "--inputs", inputs, "-o", tmp_path / "out.npz", "--output", "prob")

    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "out.npz") as file:
        assert file.files == ["prob"]


def test_an_output_that_an_onnx_model_lacks_is_refused() -> None:
    with pytest.raises(OptionError, match="does not output 'nowhere': it outputs"):
        Predictor(to_onnx(load(MODEL)), outputs=["nowhere"])


def test_validate_compares_the_chosen_outputs(inputs: Path) -> None:
    result = call(
        "validate", MODEL, "--inputs", inputs, "--output", "prob", "--against", "workspace", "--against",
        "onnxruntime-cpu", "--json",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    report = validate(MODEL, model_values(MODEL, "in"), ["workspace", "onnxruntime-cpu"], outputs=["prob"])
    assert {found.name for found in report.results} == {"prob"}


def test_validate_warns_of_omitted_outputs() -> None:
    report = validate(MODEL, model_values(MODEL, "in"), ["workspace", "onnxruntime-cpu"])

    assert report.verdict == "agree"
    assert {found.name for found in report.results} == set(OUTPUTS)
    assert any(OMITTED in note for note in report.notes)


def test_validate_compares_the_chosen_outputs_of_two_onnx_models() -> None:
    model = to_onnx(load(MODEL))

    report = validate(model, model_values(MODEL, "in"), ["onnxruntime-cpu"], other=model, outputs=["prob"])

    assert {found.name for found in report.results} == {"prob"}


def test_a_workspace_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    model = load(MODEL)
    net = type(model.predict_net)()
    net.CopyFrom(model.predict_net)
    net.name = "warned_once"  # diagnostics of a runtime are logged once in a process
    workspace = Workspace()
    workspace.run_net_once(model.init)
    for name, value in model_values(MODEL, "in").items():
        workspace.feed(name, value)

    workspace.create_net(net)
    workspace.run_net("warned_once")
    workspace.run_net("warned_once")

    assert [OMITTED in record.message for record in caplog.records if record.levelname == "WARNING"] == [True]
    np.testing.assert_allclose(workspace.fetch("prob"), model_values(MODEL, "out")["prob"], rtol=1e-5, atol=1e-6)
