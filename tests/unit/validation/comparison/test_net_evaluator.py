"""Comparisons with an evaluator of nets that shares no converter with the export, without real Caffe2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from support.nets import net, op
from support.paths import MODELS

from caffe2_backend.runtime.program.conversion_cache import CONVERSIONS
from caffe2_bridge import Model, RunError, load, save
from caffe2_cli.commands import main
from caffe2_frontend.lowering.op import Op
from caffe2_validation import validate
from caffe2_validation.runtimes import AnyModel, Value, find_runtime, pytorch_runtime
from caffe2_validation.runtimes.pytorch_runtime import PyTorch
from caffe2_validation.runtimes.real_caffe2 import shared_caffe2

TANH = "basic_rnn_tanh[1] RecurrentNetwork > step_net[2] Tanh"
X = {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}
NET = Model.of(net(op("Relu", "x", "h"), op("Sigmoid", "h", "s"), op("Exp", "s", "y")))
RUNTIMES_ONLY = "agree (runtimes of the export; not compared with Caffe2)"
AGREE = "agree (the export and an independent evaluator of the net; not compared with Caffe2)"


@pytest.fixture(autouse=True)
def without_caffe2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CAFFE2_PYTHON", raising=False)
    monkeypatch.setenv("CAFFE2_ORACLE_DIR", str(tmp_path))
    shared_caffe2.cache_clear()
    yield
    shared_caffe2.cache_clear()


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Converters of the export that emit the second type of node for the first one."""
    right, other = request.param
    emit = Op.emit

    def emit_other(op: Op, op_type: str, *operands: Any, **attributes: Any) -> Any:
        return emit(op, other if op_type == right else op_type, *operands, **attributes)

    monkeypatch.setattr(Op, "emit", emit_other)
    CONVERSIONS.clear()
    yield
    CONVERSIONS.clear()  # wrong ones, which other tests of the process would share


SIGMOID: Final = pytest.mark.parametrize("wrong", [("Sigmoid", "Tanh")], indirect=True)


@pytest.mark.torch
def test_an_agreement_with_the_evaluator_says_so(tmp_path: Path) -> None:
    report = validate(NET, X)
    assert report.sides == ("onnxruntime-cpu", "onnx-reference", "pytorch")
    assert report.verdict_text == AGREE
    assert (report.compared_with_caffe2, report.compared_with_net_evaluator) == (False, True)
    assert report.to_dict()["compared_with_net_evaluator"] is True
    assert "This tests runtimes" not in report.caveat
    alone = validate(NET, X, ("onnxruntime-cpu", "onnx-reference"))
    assert alone.compared_with_net_evaluator is False
    save(NET, tmp_path / "net")
    words = ["validate", str(tmp_path / "net"), "--report", str(tmp_path / "report.html")]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, AGREE in " ".join(result.output.split())) == (0, True), result.output
    assert f'class="verdict agree">{AGREE}<' in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.torch
def test_the_import_of_an_onnx_model_is_evaluated() -> None:
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }'
    report = validate(onnx.parser.parse_model(text), X)
    assert report.verdict_text == (
        "agree (the ONNX model and an independent evaluator of the import; not compared with Caffe2)"
    )


@pytest.mark.torch
@pytest.mark.usefixtures("wrong")
@SIGMOID
def test_a_wrong_converter_is_found_without_caffe2() -> None:
    assert validate(NET, X, ("onnxruntime-cpu", "onnx-reference")).agrees  # which is what the evaluator is for
    report = validate(NET, X)
    assert report.exit_code == 1
    assert {result.side for result in report.wrong} == {"pytorch"}


@pytest.mark.torch
@pytest.mark.usefixtures("wrong")
@SIGMOID
@pytest.mark.parametrize("against", [(), ("pytorch", "onnxruntime-cpu"), ("onnxruntime-cpu", "pytorch")])
def test_lock_step_names_the_operator_with_the_wrong_converter(against: tuple[str, ...]) -> None:
    (found,) = validate(NET, X, against or None, lockstep=True).divergences
    assert (found.operator, found.op_type, found.blob) == ("n[1] Sigmoid", "Sigmoid", "s")


@pytest.mark.torch
@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize("wrong", [("Tanh", "Softsign")], indirect=True)
def test_lock_step_names_the_operator_inside_a_loop() -> None:
    model = load(MODELS / "basic_rnn_tanh")
    report = validate(model, recurrent="scan", lockstep=True)
    assert report.exit_code == 1
    (found,) = report.divergences  # of a Scan, only what the steps hand on has a name
    assert (found.timestep, TANH in found.suspects) == (0, True)
    (found,) = validate(model, None, ("pytorch", "workspace"), lockstep=True).divergences
    assert (found.operator, found.timestep) == (TANH, 0)


def refuse(*_: object, **__: object) -> None:
    raise RunError("no")


@pytest.mark.torch
def test_an_evaluator_that_cannot_load_the_net_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PyTorch, "load", refuse)
    report = validate(NET, X, matrix=True)
    assert (report.verdict_text, report.absent["pytorch"]) == (RUNTIMES_ONLY, "no")
    assert report.sides == ("onnxruntime-cpu", "onnx-reference")
    assert len(report.pairs) == 4
    named = validate(NET, X, ("onnxruntime-cpu", "pytorch"))
    assert (named.exit_code, [failure.side for failure in named.failures]) == (2, ["pytorch"])


class Once:
    """A loaded model that runs once."""

    def __init__(self, model: AnyModel) -> None:
        self._runs = iter([find_runtime("workspace").load(model)])

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        for loaded in self._runs:
            return loaded.run(inputs, outputs)
        raise RunError("no\nmore")


@pytest.mark.torch
def test_an_evaluator_that_cannot_run_a_case_is_left_out_from_there_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PyTorch, "load", lambda _, model: Once(model))
    report = validate(load(MODELS / "lstm"))
    assert (report.exit_code, report.failures) == (0, ())
    assert f"left out of the comparison: pytorch, from case {report.cases[1]} on: no" in report.notes


@pytest.mark.torch
def test_all_installed_runtimes_of_a_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(NET, tmp_path / "net")
    monkeypatch.setattr(PyTorch, "load", refuse)
    result = CliRunner().invoke(main, ["validate", str(tmp_path / "net"), "--matrix", "--json"])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["absent"], "workspace" in found["sides"]) == (0, {"pytorch": "no"}, True)


def test_pytorch_that_is_absent_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch_runtime, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    report = validate(NET, X)
    assert report.verdict_text == RUNTIMES_ONLY
    assert report.absent["pytorch"].startswith("PyTorch is not installed")
