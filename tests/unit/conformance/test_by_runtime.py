"""The page of operators and models by runtime, and the check that it is made of."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from conformance import by_runtime, check
from conformance.check import Checker, Result, Status, Task
from conformance.corpus import CaseRef, find_cases
from conformance.executors import OnnxRuntime, Runnable
from support.paths import GOLDEN

from caffe2_bridge.diagnostics import RunError

CASES = {ref.id: ref for ref in find_cases(GOLDEN) if ref.kind == "model" or ref.group == "Relu"}
RELU = next(ref for ref in CASES.values() if ref.group == "Relu")
BRANCHES = CASES["models/control_if_else/1"]


def test_the_page_of_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        def versions(self) -> dict[str, str]:
            return {"openvino": "1.2"}

    monkeypatch.setattr(by_runtime, "find_runtime", lambda _: Found())
    results = [
        Result(Task(RELU, "openvino"), Status.WRONG, "1 of 2 differ\nmore"),
        Result(Task(BRANCHES, "openvino"), Status.PASSED_WITH_SIZES),
    ]
    by_runtime.store("openvino", results, tmp_path / "stored.json")
    stored = json.loads((tmp_path / "stored.json").read_text())["openvino"]
    assert stored["operators"] == {"Relu": [0, 1, 1, "1 of 2 differ", 0]}
    lines = by_runtime.page(tmp_path / "stored.json").splitlines()
    assert "| `control_if_else` | all, *sizes* |  |" in lines
    assert "| `Relu` | none, **1 wrong** | openvino: 1 of 2 differ |" in lines


@pytest.mark.parametrize(("ref", "status"), [(RELU, Status.PASSED), (BRANCHES, Status.PASSED_WITH_SIZES)])
def test_what_an_export_refuses_is_tried_with_sizes(
    ref: CaseRef, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "EXECUTORS", {"opencv": OnnxRuntime})
    assert Checker().check(Task(ref, "opencv")).status is status


def test_what_a_runtime_does_not_run_is_tried_with_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails:
        def run(self, _: object) -> list[object]:
            raise RunError("not loaded")

    def load(model: onnx.ModelProto) -> Runnable:
        known = all(dim.HasField("dim_value") for dim in model.graph.input[0].type.tensor_type.shape.dim)
        return OnnxRuntime(model) if known else Fails()

    monkeypatch.setattr(check, "EXECUTORS", {"tract": load, "onnxruntime": load})
    assert Checker().check(Task(RELU, "tract")).status is Status.PASSED_WITH_SIZES
    assert Checker().check(Task(RELU, "onnxruntime")).status is Status.CRASHED
