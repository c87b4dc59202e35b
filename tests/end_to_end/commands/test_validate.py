"""Validation from end to end: verdicts, exit codes, both directions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from support.paths import ROOT

from caffe2_bridge import RunError, load, save
from caffe2_cli.commands import main
from caffe2_frontend import to_onnx
from caffe2_validation import validate
from caffe2_validation.diagnose import divergences

MODELS = ROOT / "tests" / "golden" / "models"
HERE = ("workspace", "onnxruntime-cpu", "onnx-reference")


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The export of the LSTM with one bad weight."""
    model = to_onnx(load(MODELS / "lstm"), recurrent="scan")
    weight = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    values = onnx.numpy_helper.to_array(weight).copy()
    values.flat[0] += 0.5
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, tmp_path / "broken.onnx")
    return tmp_path / "broken.onnx"


@pytest.mark.parametrize("name", ["lstm", "gru", "lstm_two_layers", "attention_regular", "control_while"])
def test_runtimes_agree(name: str) -> None:
    report = validate(MODELS / name, runtimes=HERE, every_blob=True, matrix=True, recurrent="scan")
    assert report.failures == ()
    assert report.agrees
    assert len(report.cases) >= 1
    assert all(worst is not None and worst < 1e-5 for worst in report.matrix.values())
    assert any(not result.is_output for result in report.results)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["lstm", "milstm", "lstm_drop_states", "control_while_if"])
def test_real_caffe2_agrees(name: str) -> None:
    report = validate(MODELS / name, every_blob=True)
    assert report.reference == "caffe2"
    assert report.agrees, report.to_json()
    assert (report.verdict_text, report.compared_with_caffe2, report.caveat) == ("agree", True, "")


def test_a_bad_weight_is_found_in_every_direction(broken: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.onnx"
    onnx.save(to_onnx(load(MODELS / "lstm"), recurrent="scan"), good)
    for one, other in ((MODELS / "lstm", broken), (good, broken), (broken, MODELS / "lstm")):
        report = validate(one, other=other, runtimes=HERE)
        assert report.exit_code == 1, (one, other)
        assert report.wrong[0].difference.max_abs > 1e-3
    assert validate(MODELS / "lstm", other=good, runtimes=HERE).agrees


def test_two_nets(tmp_path: Path) -> None:
    save(load(MODELS / "gru"), tmp_path / "copy")
    assert validate(MODELS / "gru", other=tmp_path / "copy", runtimes=("workspace",)).agrees


@pytest.mark.oracle
def test_an_onnx_model_and_its_import() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[N,3] x, float[N,3] z) => (float[N,3] y) { a = Relu(x) y = Add(a, z) }"""
    report = validate(onnx.parser.parse_model(text), every_blob=True)
    assert report.sides[:3] == ("onnxruntime-cpu", "onnx-reference", "caffe2")  # and PyTorch where it is installed
    assert (report.verdict_text, report.compared_with_caffe2) == ("agree", True)


def test_a_lock_step_that_cannot_run_costs_no_verdict(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RunError("not by itself")

    monkeypatch.setattr(divergences, "lock_step", refuse)
    report = validate(MODELS / "lstm", other=broken, runtimes=HERE, lockstep=True)
    assert report.exit_code == 1
    assert "not by itself" in report.failures[0].reason


def test_given_inputs_are_the_only_case() -> None:
    random = np.random.default_rng(0)
    inputs = {
        "input": random.standard_normal((4, 2, 4)).astype(np.float32), "seq_lengths": np.array([4, 1], np.int32),
        "init_0": np.zeros((1, 2, 6), np.float32),
    }  # fmt: skip
    report = validate(MODELS / "gru", inputs, HERE)
    assert report.cases == ("given",)
    assert report.seed is None
    assert report.agrees


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["validate", *map(str, words)])
    return result.exit_code, result.output


AGAINST = ("--against", "workspace", "--against", "onnxruntime-cpu")


def test_exit_codes(broken: Path, tmp_path: Path) -> None:
    code, text = run(MODELS / "lstm", *AGAINST)
    assert (code, "agree (runtimes of the export; not compared with Caffe2)" in text) == (0, True)
    assert "This tests runtimes on the export, not the export." in text
    code, text = run(MODELS / "lstm", "--other", broken, *AGAINST)
    assert (code, "disagree" in text) == (1, True)
    assert run(tmp_path / "nothing", *AGAINST)[0] == 2
    code, text = run(MODELS / "lstm", "--against", "abacus")
    assert (code, "runtime 'abacus' does not exist" in text) == (2, True)
    code, text = run(MODELS / "lstm", *AGAINST, "--inputs", write_inputs(tmp_path))
    assert (code, "not given" in text) == (2, True)


def write_inputs(folder: Path) -> Path:
    path = folder / "in.npz"
    np.savez(path, input=np.zeros((2, 2, 4), np.float32))
    return path


def test_inputs_of_an_onnx_model_are_described(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]> g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    code, text = run(tmp_path / "m.onnx", *AGAINST, "--input", "x=[7,3]", "--json")
    assert (code, {tuple(r["shape"]) for r in json.loads(text)["results"]}) == (0, {(7, 3)})
    code, text = run(tmp_path / "m.onnx", *AGAINST, "--input", "z=[7,3]")
    assert (code, "the model has no input 'z': its inputs are 'x'" in text) == (2, True)


def test_json_follows_its_schema() -> None:
    code, text = run(MODELS / "gru", *AGAINST, "--json", "--matrix")
    found = json.loads(text)
    assert code == found["exit_code"] == 0
    assert found["schema"] == 1
    assert (found["verdict"], found["compared_with_caffe2"]) == ("agree", False)
    keys = {
        "schema", "model", "verdict", "exit_code", "reference", "sides", "cases", "seed", "guessed", "seconds",
        "versions", "absent", "failures", "results", "matrix", "pairs", "divergences", "optimizations",
        "random_weights", "notes", "nonfinite", "tolerances", "command", "compared_with_caffe2",
        "compared_with_net_evaluator",
    }  # fmt: skip
    assert set(found) == keys
    assert {"case", "side", "name", "max_abs", "max_rel", "max_ulp", "agrees", "dtype", "shape"} <= set(
        found["results"][0]
    )
    assert len(found["matrix"]) == 4
