"""Runtimes that models are deployed to: the protocol by a stand-in, and each one that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.paths import MODELS

from caffe2_bridge import RunError, load
from caffe2_frontend import to_onnx
from caffe2_validation import validate
from caffe2_validation.runtimes.deployed import DEPLOYED, NodePackage, PythonPackage
from caffe2_validation.runtimes.deployed_worker import FeedError, check_inputs, forget_dims, is_scalar

# What OpenCV's module is asked for, computed by the onnx package.
STAND_IN = """
import types
import onnx
from onnx.reference import ReferenceEvaluator
class Net:
    def __init__(self, model):
        print("a line that must not fall between the frames")
        self.model, self.values = ReferenceEvaluator(onnx.ModelProto.FromString(model.tobytes())), {}
    def setInput(self, value, name):
        self.values[name] = value
    def forward(self, names):
        return self.model.run(names, self.values)
dnn = types.SimpleNamespace(readNetFromONNX=Net)
"""
MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 17]> g (float[N, 2] x, int64[N] i) => (float[N, 2] y, int64[N] j) '
    "{ y = Relu(x) j = Neg(i) }"
)
X = np.array([[-1, 2], [3, -4]], np.float32)
INDICES = np.array([5, -6])


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PythonPackage]:
    (tmp_path / "cv2.py").write_text(STAND_IN)
    (tmp_path / "opencv_python_headless-9.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: opencv-python-headless\nVersion: 9.0\n"
    (tmp_path / "opencv_python_headless-9.0.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    runtime = PythonPackage("opencv", "OpenCV", "cv2")
    yield runtime
    runtime.close()


def test_a_model_runs_in_a_process_of_its_own(stand_in: PythonPackage) -> None:
    assert stand_in.missing() == ""
    assert stand_in.versions() == {"opencv-python-headless": "9.0"}
    loaded = stand_in.load(MODEL)
    found = {name: np.asarray(value).tolist() for name, value in loaded.run({"x": X, "i": INDICES}).items()}
    assert found == {"y": [[0, 2], [3, 0]], "j": [-5, 6]}
    assert list(loaded.run({"x": X, "i": INDICES}, ["j"])) == ["j"]
    with pytest.raises(RunError, match="opencv: "):
        loaded.run({"x": X})
    assert np.asarray(stand_in.load(MODEL).run({"x": X, "i": INDICES})["j"]).tolist() == [-5, 6]


def test_what_is_not_installed_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = PythonPackage("openvino", "OpenVINO", "no_such_module")
    assert absent.missing() == "OpenVINO is not installed: pip install 'caffe2-bridge[openvino]'"
    monkeypatch.setenv("PATH", "")
    assert NodePackage("onnxruntime-node", "onnxruntime").missing().startswith("Node.js is not installed")


def test_an_input_with_a_default_is_not_ignored() -> None:
    check_inputs({"x": X}, ["x"])
    with pytest.raises(FeedError, match="'w' has a default"):
        check_inputs({"x": X, "w": X}, ["x"])
    with pytest.raises(FeedError, match="'x' is not given"):
        check_inputs({}, ["x"])


def test_named_dims_are_forgotten_in_bodies_too() -> None:
    branches = "then_branch = t () => (float[N] a) { a = Neg(x) }, else_branch = e () => (float[N] b) { b = Abs(x) }"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[N] x, bool c) => (float[N] y) {{ y = If (c) <{branches}> }}'
    )
    forget_dims(model.graph)
    assert "dim" not in str(model)
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_scalars_are_told_from_values_of_unknown_shape() -> None:
    graph = onnx.parser.parse_graph("g (float x, float[1] y, float[N] z, float[] unknown) => () {}")
    assert [is_scalar(value) for value in graph.input] == [True, False, False, False]


PRESENT = [name for name, runtime in DEPLOYED.items() if not runtime.missing()]


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESENT)
def test_a_model_computes_the_same_in_each_that_is_installed(name: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N, 2] x) => (float[N, 2] y) { t = Relu(x) y = Exp(t) }'
    )
    found = DEPLOYED[name].load(model).run({"x": X})
    np.testing.assert_allclose(found["y"], np.exp(X.clip(0)), rtol=1e-5)
    assert all(DEPLOYED[name].versions().values())


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESENT)
@pytest.mark.parametrize("model", ["gru", "basic_rnn_relu", "lstm_two_layers"])
def test_an_export_for_a_runtime_computes_the_same_there(name: str, model: str) -> None:
    target = name if isinstance(DEPLOYED[name], PythonPackage) else "onnxruntime"
    report = validate(load(MODELS / model), runtimes=("onnxruntime-cpu", name), target=target)
    assert report.verdict == "agree"


@pytest.mark.slow
@pytest.mark.skipif("opencv" not in PRESENT, reason="OpenCV is not installed")
def test_opencv_computes_loops_again_with_other_numbers_of_steps() -> None:
    inputs = {"x": ("float32", [None, 3]), "n": ("float32", [1]), "one": ("float32", [1])}
    loaded = DEPLOYED["opencv"].load(to_onnx(load(MODELS / "control_while"), inputs=inputs, target="opencv"))
    x = np.ones((2, 3), np.float32)
    for steps in (3, 0, 5, 1):
        found = loaded.run({"x": x, "n": np.float32([steps]), "one": np.float32([1])})["acc"]
        np.testing.assert_array_equal(found, x * (steps + 1))


@pytest.mark.slow
@pytest.mark.skipif("opencv" not in PRESENT, reason="OpenCV is not installed")
def test_opencv_computes_the_other_branch_in_a_later_run() -> None:
    inputs = {"x": ("float32", [2, 3]), "y": ("float32", [2, 3]), "cond": ("bool", [1])}
    loaded = DEPLOYED["opencv"].load(to_onnx(load(MODELS / "control_if_else"), inputs=inputs, target="opencv"))
    x, y = np.full((2, 3), 5, np.float32), np.full((2, 3), 2, np.float32)
    for condition, expected in ((True, 10), (False, 3), (True, 10)):
        found = loaded.run({"x": x, "y": y, "cond": np.array([condition])})["z"]
        np.testing.assert_array_equal(found, np.full((2, 3), expected))


@pytest.mark.slow
@pytest.mark.skipif("openvino" not in PRESENT, reason="OpenVINO is not installed")
def test_a_silent_fault_of_a_runtime_is_found_by_the_first_validation() -> None:
    report = validate(load(MODELS / "gru"), runtimes=("onnxruntime-cpu", "openvino"))
    assert report.verdict == "disagree"  # sequence_lens with open dims
