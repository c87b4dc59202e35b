"""Caffe2's own translation decoder: a bidirectional encoder, attention, and beam search in a RecurrentNetwork.

The net declares no outputs, so it outputs every blob that no operator reads.
"""

from pathlib import Path

import numpy as np
import pytest
from support.commands import call
from support.models.recorded import model_values
from support.paths import CAFFE2_MODELS

from caffe2_backend import Predictor
from caffe2_bridge import load
from caffe2_bridge.diagnostics import Severity
from caffe2_frontend import check, to_onnx
from caffe2_frontend.options import Recurrent

MODEL = CAFFE2_MODELS / "translation_decoder"
CASES = (0, 1, 2)
INPUTS = {"encoder_inputs": ("int32", ["T", "N"])}
CELL_STATES = [f"model0/encoder/layer0/{direction}/lstm/cell_state_all" for direction in ("fw", "bw")]


@pytest.mark.parametrize("form", ["auto", "scan", "loop"])
def test_the_export_equals_caffe2(form: Recurrent) -> None:
    predictor = Predictor(to_onnx(load(MODEL), inputs=INPUTS, recurrent=form))

    for case in CASES:
        expected = model_values(MODEL, "out", case)
        found = predictor.run(model_values(MODEL, "in", case))
        assert set(expected) - set(found) == set(CELL_STATES if form == "auto" else ())
        assert set(found) <= set(expected)
        for name, value in found.items():
            assert value.dtype == expected[name].dtype, name
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_export_needs_no_description(tmp_path: Path) -> None:
    result = call("export", MODEL, "-o", tmp_path / "m.onnx")

    assert result.exit_code == 0, result.output
    assert "assumed" not in result.stderr
    predictor = Predictor(tmp_path / "m.onnx")
    for case in CASES:
        expected = model_values(MODEL, "out", case)
        found = predictor.run(model_values(MODEL, "in", case))
        assert set(expected) - set(found) == set(CELL_STATES)
        for name, value in found.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_without_weights_only_the_constants_of_the_step_net_are_missing() -> None:
    errors = [each for each in check(load(MODEL).predict_net).findings if each.severity is Severity.ERROR]

    assert {each.code for each in errors} == {"undefined-blob"}
    assert {str(each.location).partition(" > ")[2][:8] for each in errors} == {"step_net"}


def test_the_runtime_equals_caffe2() -> None:
    predictor = Predictor(load(MODEL))

    for case in CASES:
        found = predictor.run(model_values(MODEL, "in", case))
        for name, value in model_values(MODEL, "out", case).items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_check_names_the_omitted_outputs_and_what_forces_a_scan() -> None:
    described = ("--input", "encoder_inputs=int32[T,N]")
    result = call("check", MODEL, *described)

    assert result.exit_code == 0, result.output
    assert "choose the others" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if "[omitted-output]" in line]
    assert len(lines) == len(CELL_STATES)
    assert all(name in line for name, line in zip(CELL_STATES, lines, strict=True))
    typed = lines[0].partition("becomes a Scan: ")[2].rstrip(")").split()
    assert set(CELL_STATES) < set(typed)

    chosen = call("check", MODEL, *described, *typed)

    assert chosen.exit_code == 0, chosen.output
    assert "[omitted-output]" not in chosen.stderr
    first, second = (line for line in chosen.stderr.splitlines() if "cell_state_all') is an output" in line)
    assert "fw/lstm/cell_state_all') is an output" in first
    assert "bw/lstm/cell_state_all') is an output" in second
    assert second.endswith("(as above)")
    fewer = first.partition("choose the others: ")[2].rstrip(")").split()
    assert "choose the others" not in call("check", MODEL, *described, *fewer).stderr
