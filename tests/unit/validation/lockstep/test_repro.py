"""Repros: an operator that disagrees, with its inputs, ready to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cells import fills
from support.nets import net, op
from support.validation.faults import every_fault

from caffe2_backend import Int8Tensor, Predictor
from caffe2_bridge import Model
from caffe2_validation import find_runtime, validate
from caffe2_validation.diagnose.divergences import lock_step
from caffe2_validation.lockstep.repro import write_repro
from caffe2_validation.lockstep.steps import Cut, Point
from caffe2_validation.sides import Side


def test_the_repro_runs_by_itself(tmp_path: Path) -> None:
    fault = next(fault for fault in every_fault() if fault.name.startswith("argument 4"))
    runtime = find_runtime("workspace")
    good, bad = Side("good", runtime, fault.good), Side("bad", runtime, fault.bad)
    found = lock_step(good, bad, fault.case, repro=tmp_path / "repro")
    assert found is not None
    assert rerun(Path(found.folder)) == pytest.approx(found.difference.max_abs, rel=1e-4)


def rerun(folder: Path) -> float:
    """Run the script of a repro, which imports public names alone: the difference that it prints."""
    return float(printed(folder).split()[-1])


def printed(folder: Path) -> str:
    script = (folder / "repro.py").read_text(encoding="utf-8")
    imports = [line for line in script.splitlines() if line.startswith(("import", "from"))]
    assert imports == ["import numpy as np", "from caffe2_backend import Int8Tensor, Predictor"]
    done = subprocess.run([sys.executable, "repro.py"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_inputs_of_a_repro_have_the_names_of_the_blobs(tmp_path: Path) -> None:
    good = Model.of(net(op("Relu", "a/x", "a/h"), op("FC", "a/h a/w a/b", "a/y"), inputs="a/x a/w a/b", outputs="a/y"))
    random = np.random.default_rng(3)
    values = {"a/w": random.standard_normal((3, 4)).astype(np.float32), "a/b": np.zeros(3, np.float32)}
    wrong = {**values, "a/b": np.array([0, 0.5, 0], np.float32)}
    models = [Model.of(good.predict_net, fills(each)) for each in (values, wrong)]
    inputs = {"a/x": random.standard_normal((2, 4)).astype(np.float32)}
    report = validate(
        models[0], inputs, other=models[1], runtimes=["workspace"], lockstep=True, repro=tmp_path / "repro"
    )
    folder = Path(report.divergences[0].folder)
    assert rerun(folder) == pytest.approx(0.5)
    with np.load(folder / "candidate" / "inputs.npz") as arrays:
        assert set(arrays) == {"a/h", "a/w", "a/b"}
        np.testing.assert_array_equal(arrays["a/b"], wrong["a/b"])
    found = Predictor(folder / "reference").run(dict(np.load(folder / "reference" / "inputs.npz")))
    np.testing.assert_array_equal(found["a/y"], np.load(folder / "reference" / "outputs.npz")["a/y"])


def test_a_repro_keeps_scales_of_int8_tensors(tmp_path: Path) -> None:
    quantized = Int8Tensor(np.array([[1, 2, 200]], np.uint8), 0.5, 3)
    model = Model.of(net(op("Int8Dequantize", "q", "y")))
    cut = Cut(model, {"q": quantized}, ("y",))
    point = Point("n[0]", "Int8Dequantize", (), "y", 0, walked=False, value=np.zeros((1, 3), np.float32), cut=cut)
    write_repro(tmp_path, ("workspace", point), ("caffe2", point))
    assert rerun(tmp_path) == 98.5


@pytest.mark.parametrize("recorded", [np.array([["a", "b"]]), np.zeros((1, 3), np.float32)])
def test_results_that_cannot_be_subtracted_are_printed(tmp_path: Path, recorded: np.ndarray) -> None:
    cut = Cut(Model.of(net(op("Relu", "x", "y"))), {"x": np.array([[1, 2]], np.float32)}, ("y",))
    point = Point("n[0]", "Relu", (), "y", 0, walked=False, value=recorded, cut=cut)
    write_repro(tmp_path, ("workspace", point), ("caffe2", point))
    text = printed(tmp_path)
    assert text.startswith("y is float32 (1, 2) [[1. 2.]] and ")
    assert str(recorded.shape) in text
