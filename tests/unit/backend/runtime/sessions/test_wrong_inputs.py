"""A failed run names the input that is of another type or shape than the model takes, of nets and of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from conformance.recording import operator
from support.cells import fills
from support.commands import call
from support.paths import CHAR_RNN

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.wrong_inputs import wrong_inputs
from caffe2_bridge import Model, load
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

GOOD = {
    "input_blob": np.zeros((5, 2, 94), np.float32),
    "seq_lengths": np.array([5, 3], np.int32),
    "hidden_init": np.zeros((1, 2, 192), np.float32),
    "cell_init": np.zeros((1, 2, 192), np.float32),
}
WRONG = [
    (
        {"input_blob": np.zeros((5, 2, 94))},
        "input 'input_blob' is float64[5,2,94], and the model takes float32[T,N,94]",
    ),
    ({"seq_lengths": np.array([5, 3])}, "input 'seq_lengths' is int64[2], and the model takes int32[N]"),
    (
        {"input_blob": np.zeros((5, 94), np.float32)},
        "input 'input_blob' is float32[5,94], and the model takes float32[T,N,94]",
    ),
    (
        {"hidden_init": np.zeros((1, 2, 100), np.float32)},
        "input 'hidden_init' is float32[1,2,100], and the model takes float32[1,N,192]",
    ),
    (
        {"hidden_init": np.zeros((1, 3, 192), np.float32)},
        "input 'hidden_init' is float32[1,3,192]: dim 1, N, is 3, and 2 in input 'input_blob'",
    ),
    ({"input_blob": np.array(["a"])}, "input 'input_blob' is string[1], and the model takes float32[T,N,94]"),
]


@pytest.fixture(scope="module")
def predictors() -> list[Predictor]:
    net = load(CHAR_RNN)
    return [Predictor(net), Predictor(to_onnx(net))]


@pytest.mark.parametrize(("changed", "reason"), WRONG)
def test_the_wrong_input_is_named(changed: dict[str, Any], reason: str, predictors: list[Predictor]) -> None:
    for predictor in predictors:
        with pytest.raises(RunError) as raised:
            predictor.run({**GOOD, **changed})
        assert str(raised.value) == reason
        assert predictor.run(GOOD)["softmax"].shape == (5, 2, 94)


def test_the_command(tmp_path: Path) -> None:
    changed, reason = WRONG[0]
    np.savez(tmp_path / "in.npz", **{**GOOD, **changed})
    result = call("run", CHAR_RNN, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert (result.exit_code, result.stderr) == (2, f"error: {reason}\n")


@pytest.mark.parametrize(("changed", "reason"), [WRONG[0], WRONG[3]])
def test_the_validation(changed: dict[str, Any], reason: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **{**GOOD, **changed})
    call("export", CHAR_RNN, "-o", tmp_path / "m.onnx")
    for model in (CHAR_RNN, tmp_path / "m.onnx"):
        result = call("validate", model, "--inputs", tmp_path / "in.npz", "--against", "onnxruntime-cpu")
        assert (result.exit_code, reason in result.stderr) == (2, True), result.output


def test_what_fits() -> None:
    types = {"x": "float32[N,?]", "y": "float32[N]", "z": "int64"}
    x, y = np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
    assert wrong_inputs({"x": x, "y": y, "z": np.zeros((1, 1), np.int64), "more": 1}, types) == ""
    assert wrong_inputs({"x": y, "y": x}, types).count("and the model takes") == 2
    assert wrong_inputs({"x": x, "y": np.zeros(3, np.float32)}, types).endswith("dim 0, N, is 3, and 2 in input 'x'")


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("kind", ["Gather", "SparseLengthsSum"])
def test_a_type_that_an_export_assumes_is_not_what_a_net_takes(kind: str, dtype: Any) -> None:
    names = ["table", "ids", "lengths"][: 2 + (kind == "SparseLengthsSum")]
    net = NetDef(op=[operator(kind, names, ["y"])], external_input=names, external_output=["y"])
    inputs = {"ids": np.array([1, 99], dtype), "lengths": np.array([2], np.int32)}
    predictor = Predictor(Model.of(net, fills({"table": np.ones((5, 2), np.float32)})))
    with pytest.raises(RunError, match="99"):
        predictor.run({name: inputs[name] for name in names[1:]})


def test_a_net_that_does_not_convert_says_nothing_of_types() -> None:
    op = operator("HuffmanTreeHierarchy", ["labels"], ["tree"], num_classes=6)
    net = NetDef(op=[op], external_input=["labels"], external_output=["tree"])
    with pytest.raises(ConversionError, match="has no conversion"):
        Predictor(Model.of(net, NetDef())).run({"labels": np.arange(6)})


def test_an_imported_net_states_the_type_of_its_input() -> None:
    graph = '<ir_version: 9, opset_import: ["": 20]> g (float[N,2] x) => (float[N,2] y) { y = Tanh(x) }'
    predictor = Predictor(to_netdef(onnx.parser.parse_model(graph)))
    with pytest.raises(RunError, match=r"^input 'x' is float64\[1,2\], and the model takes float32\[N,2\]$"):
        predictor.run({"x": np.zeros((1, 2))})
