"""Where no operator differs and outputs do, the report names the optimization of onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from caffe2_validation import validate
from caffe2_validation.diagnose.optimizations import find_optimization
from caffe2_validation.inputs.specs import Case
from caffe2_validation.render.page import write_page
from caffe2_validation.runtimes import Value, find_runtime
from caffe2_validation.runtimes.base import AnyModel, Loaded
from caffe2_validation.runtimes.onnx_runtime import OnnxRuntime
from caffe2_validation.sides import Side

# Taking away a float's way through float16 and back also takes away the rounding: onnxruntime has that as an option.
CASTS = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
g (float[N,8] x) => (float[N,8] y) <float half = {0.5}> {
  a = Mul (x, half)
  low = Cast <to = 10> (a)
  b = Cast <to = 1> (low)
  y = Add (b, half)
}""")
INPUTS = {"x": (0.3 + 1000.123 * np.linspace(-3, 3, 16, dtype=np.float32)).reshape(2, 8).astype(np.float32)}
ELIMINATION = {"optimization.enable_cast_chain_elimination": "1"}
RELUS = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
g (float[2,8] x, float[8,8] w, float[8] b) => (float[2,8] y) {
  a = MatMul (x, w)
  h = Add (a, b)
  y = Relu (h)
}""")


def optimizing() -> OnnxRuntime:
    runtime = find_runtime("onnxruntime-cpu")
    assert isinstance(runtime, OnnxRuntime)
    return runtime.but(entries=ELIMINATION)


def test_the_level_the_rule_and_the_nodes_are_named(tmp_path: Any) -> None:
    report = validate(CASTS, INPUTS, runtimes=("onnx-reference", optimizing()), lockstep=True)
    assert report.verdict == "disagree"
    assert not report.divergences
    (fault,) = report.optimizations
    assert (fault.level, fault.optimizers) == ("basic", ("CastChainElimination",))
    assert fault.removed == (("Cast", 2),)
    assert json.loads(report.to_json())["optimizations"][0]["level"] == "basic"
    page = tmp_path / "page.html"
    write_page(report, page)
    assert "CastChainElimination" in page.read_text(encoding="utf-8")


def test_without_the_option_nothing_is_found() -> None:
    report = validate(CASTS, INPUTS, runtimes=("onnx-reference", "onnxruntime-cpu"), lockstep=True)
    assert report.agrees
    assert not report.optimizations


def test_the_reference_may_be_the_one_at_fault() -> None:
    report = validate(CASTS, INPUTS, runtimes=(optimizing(), "onnx-reference"), lockstep=True)
    (fault,) = report.optimizations
    assert fault.side == "onnxruntime-cpu"
    assert fault.optimizers == ("CastChainElimination",)


class WrongFusion(OnnxRuntime):
    """onnxruntime, with outputs that are wrong from a level of optimization on, unless an optimizer is left out."""

    def __init__(self, level: str, optimizer: str, **options: Any) -> None:
        super().__init__("cpu")
        self.level, self.optimizer = level, optimizer
        self.options = super().but(**options).options

    def but(self, **options: Any) -> WrongFusion:
        known = {name: getattr(self.options, name) for name in ("optimization", "disabled_optimizers", "optimized")}
        return WrongFusion(self.level, self.optimizer, **(known | options))

    def load(self, model: AnyModel) -> Any:
        levels = ("none", "basic", "extended", "all")
        wrong = levels.index(self.options.optimization) >= levels.index(self.level)
        return _Off(super().load(model), wrong and self.optimizer not in self.options.disabled_optimizers)


class _Off:
    def __init__(self, loaded: Loaded, wrong: bool) -> None:
        self.loaded, self.wrong = loaded, wrong

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        found = self.loaded.run(inputs, outputs)
        return {name: np.asarray(value) + 1 for name, value in found.items()} if self.wrong else found


@pytest.mark.parametrize(
    ("level", "optimizer", "node"),
    [("basic", "MatMulAddFusion", "Gemm"), ("extended", "GemmActivationFusion", "FusedGemm"), ("none", "", "")],
)
def test_every_level(level: str, optimizer: str, node: str) -> None:
    random = np.random.default_rng(3)
    shapes = {"x": (2, 8), "w": (8, 8), "b": (8,)}
    case = Case("given", {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})
    right = find_runtime("onnx-reference").load(RELUS).run(case.inputs)["y"]

    def agrees(values: Mapping[str, Value]) -> bool:
        return bool(np.allclose(values["y"], right, atol=1e-4))  # type: ignore[arg-type] # an array

    fault = find_optimization(Side("side", WrongFusion(level, optimizer), RELUS), case, agrees)
    assert fault is not None
    assert fault.level == level
    assert fault.optimizers == ((optimizer,) if optimizer else ())
    assert [name.split()[0] for name in fault.nodes] == ([node] if node else [])
    assert ("no operator differs" in str(fault)) == (level == "none")


def test_other_runtimes_have_no_optimizations_to_look_into() -> None:
    side = Side("reference", find_runtime("onnx-reference"), CASTS)
    assert find_optimization(side, Case("given", INPUTS), lambda _: False) is None
