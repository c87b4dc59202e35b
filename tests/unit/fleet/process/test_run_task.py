"""One model of a batch: what its export and its validation make of the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import MODELS
from support.validation.faults import with_weight

from caffe2_bridge import load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_fleet.job import Job
from caffe2_fleet.process import run_task as module
from caffe2_fleet.process.run_task import run_task
from caffe2_fleet.process.server import answer
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.index import index_page
from caffe2_fleet.task import ModelTask
from caffe2_validation.api import run_validation
from caffe2_validation.options import ValidationOptions

OPTIONS = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"))


@pytest.fixture
def relu(tmp_path: Path) -> ModelTask:
    """A net whose input has neither a type nor a shape."""
    op = OperatorDef(type="Relu", input=["data"], output=["y"])
    net = NetDef(name="relu", op=[op], external_input=["data"], external_output=["y"])
    (tmp_path / "relu.pb").write_bytes(net.SerializeToString())
    return ModelTask("relu", str(tmp_path / "relu.pb"))


def test_an_export_without_sizes_takes_those_that_validation_found(relu: ModelTask, tmp_path: Path) -> None:
    record = run_task(relu, OPTIONS, tmp_path / "relu.onnx").record
    assert record["verdict"] == "agree"
    assert (tmp_path / "relu.onnx").exists()
    assert "exported with the sizes that validation found: data=float32[?]" in record["notes"]


def test_a_net_that_is_not_exported_does_not_agree(
    relu: ModelTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_found_sizes", lambda *_: [])
    request = {
        "task": relu.to_json(), "options": OPTIONS.to_json(), "target": str(tmp_path), "repro": "", "plugins": [],
    }  # fmt: skip
    record = answer(request | {"onnx": "onnx/relu.onnx", "page": "pages/relu.html"})
    assert (record["verdict"], record["cause"], record.get("onnx")) == ("not exported", "needs-shape", None)
    assert "the rank of input 'data' is unknown" in record["reason"]
    assert record["reason"].endswith("; validation: agree")
    page = (tmp_path / "pages" / "relu.html").read_text(encoding="utf-8")
    assert 'class="verdict disagree">not exported<' in page
    assert "the rank of input" in page


def test_the_page_of_an_exported_net_names_the_file(relu: ModelTask, tmp_path: Path) -> None:
    request = {
        "task": relu.to_json(), "options": OPTIONS.to_json(), "target": str(tmp_path), "repro": "", "plugins": [],
    }  # fmt: skip
    record = answer(request | {"onnx": "onnx/relu.onnx", "page": "pages/relu.html"})
    assert record["onnx"] == "onnx/relu.onnx"
    page = (tmp_path / "pages" / "relu.html").read_text(encoding="utf-8")
    assert '<a href="../onnx/relu.onnx">' in page
    assert "exported with the sizes that validation found" in page


@pytest.mark.parametrize(
    ("runtimes", "compared", "text"),
    [
        (("onnxruntime-cpu", "onnx-reference"), False, "agree (runtimes of the export; not compared with Caffe2)"),
        (("workspace", "onnxruntime-cpu"), False, "agree (runtimes of the export; not compared with Caffe2)"),
        pytest.param(
            ("onnxruntime-cpu", "pytorch"),
            False,
            "agree (the export and an independent evaluator of the net; not compared with Caffe2)",
            marks=pytest.mark.torch,
        ),
        pytest.param(("caffe2", "onnxruntime-cpu"), True, "agree", marks=pytest.mark.oracle),
    ],
)
def test_an_agreement_says_with_what(runtimes: tuple[str, ...], compared: bool, text: str, relu: ModelTask) -> None:
    result = run_task(relu, ValidationOptions(runtimes=runtimes), None)
    found = {name: result.record[name] for name in ("verdict", "verdict_text", "compared_with_caffe2")}
    assert found == {"verdict": "agree", "verdict_text": text, "compared_with_caffe2": compared}
    assert result.record["compared_with_net_evaluator"] == ("pytorch" in runtimes)
    assert f'title="{text}">agree<' in page_of(ModelResult("relu", **found))


def test_a_diagnosis_writes_the_operator_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = load(MODELS / "lstm")
    weight = next(name for name in good.params if name.endswith("gates_t_w"))
    bad = with_weight(good, weight, lambda array: array * 1.5)
    monkeypatch.setattr(module, "run_validation", lambda model, options: run_validation(model, None, bad, options))
    task = ModelTask("zoo/lstm", str(MODELS / "lstm"))
    request = Job(task, OPTIONS.to_json(), str(tmp_path)).diagnosis()
    record = answer(request)
    assert (record["verdict"], record["repro"]) == ("disagree", "repro/zoo/lstm")
    assert list((tmp_path / "repro" / "zoo" / "lstm").glob("*/repro.py"))
    page = (tmp_path / "pages" / "zoo" / "lstm.html").read_text(encoding="utf-8")
    assert '<a href="../../repro/zoo/lstm/">' in page
    assert "First to disagree" in page
    assert "caffe2-bridge validate" in page


def page_of(result: ModelResult) -> str:
    summary = {"models": [vars(result)], "skipped": [], "versions": {}, "command": ""}
    return index_page(summary | {"runtimes": [], "tolerances": {}})
