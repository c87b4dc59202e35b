"""Profiles of models, from Python and from the command line."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import numpy as np
import pytest
from conformance.recording import operator
from support.commands import call
from support.nets import net, op
from support.paths import ROOT

from caffe2_backend import Predictor
from caffe2_backend.runtime.calls.profiling import outputs_read, profile_model
from caffe2_bridge import Model, Profile, construct_init_net_from_params, load, save
from caffe2_bridge.diagnostics import RunError

INIT = construct_init_net_from_params({"w": np.eye(3, dtype=np.float32), "b": np.zeros(3, np.float32)})
PREDICT = net(op("FC", "x w b", "h"), op("Add", "h h", "h"), op("Relu", "h", "y"), inputs="x w b")
X = np.float32([[1, -2, 3]])


def test_each_operator_is_measured_on_the_inputs_of_one_run() -> None:
    found = profile_model(Model.of(PREDICT, INIT), {"x": X}, runs=4)
    assert [(operator.index, operator.type, len(operator.seconds)) for operator in found.operators] == [
        (0, "FC", 4),
        (1, "Add", 4),
        (2, "Relu", 4),
    ]
    assert all(min(operator.seconds) > 0 for operator in found.operators)
    first = found.operators[0]
    assert [(blob.name, blob.dtype, blob.shape, blob.bytes) for blob in (*first.inputs[1:], *first.outputs)] == [
        ("w", "float32", (3, 3), 36),
        ("b", "float32", (3,), 12),
        ("h", "float32", (1, 3), 12),
    ]
    with pytest.raises(RunError, match="runs must be at least 1"):
        profile_model(Model.of(PREDICT, INIT), {"x": X}, runs=0)
    with pytest.raises(RunError, match="'x'"):
        profile_model(Model.of(PREDICT, INIT), {})


def test_an_operator_computes_the_outputs_that_the_net_reads(caplog: pytest.LogCaptureFixture) -> None:
    """The cell states of every step, which nothing reads, would make a Scan of the LSTM."""
    caplog.set_level(logging.INFO)
    model = load(ROOT / "models" / "char_rnn")
    arrays = {
        "input_blob": np.zeros((2, 1, 94), np.float32), "seq_lengths": np.array([2], np.int32),
        "hidden_init": np.zeros((1, 1, 192), np.float32), "cell_init": np.zeros((1, 1, 192), np.float32),
    }  # fmt: skip
    found = profile_model(model, arrays, runs=1)
    assert "becomes a Scan" not in caplog.text
    assert {blob.name: blob.shape for blob in found.operators[1].outputs} == {
        "LSTM/hidden_state_all": (2, 1, 192), "LSTM/hidden_state_last": (1, 1, 192), "LSTM/cell_state_all": (),
        "LSTM/cell_state_last": (1, 1, 192), "LSTM/step_workspaces": (),
    }  # fmt: skip


def test_the_operators_of_a_short_lstm_take_as_long_as_the_net() -> None:
    model = load(ROOT / "models" / "char_rnn")
    arrays = {
        "input_blob": np.zeros((4, 1, 94), np.float32), "seq_lengths": np.array([4], np.int32),
        "hidden_init": np.zeros((1, 1, 192), np.float32), "cell_init": np.zeros((1, 1, 192), np.float32),
    }  # fmt: skip
    found = profile_model(model, arrays, runs=20)
    predictor = Predictor(model)
    whole = []
    for _ in range(20):
        start = time.perf_counter()
        predictor.run(arrays)
        whole.append(time.perf_counter() - start)
    assert sum(min(operator.seconds) for operator in found.operators) < 4 * min(whole)  # it was more than 10


def test_outputs_that_bodies_and_later_operators_read() -> None:
    branch = net(op("Relu", "b", "t"), inputs="b", outputs="t")
    predict = net(
        op("Split", "x", "a b c"), op("Sigmoid", "x", "k"), operator("If", ["k"], ["t"], then_net=branch),
        op("Copy", "x", "c"), op("Sum", "t c", "y"), op("Dropout", "y", "z mask"), outputs="y",
    )  # fmt: skip
    assert outputs_read(predict, ["y"]) == [("b",), ("k",), ("t",), ("c",), ("y",), ("z", "mask")]


def test_the_command_writes_a_profile(tmp_path: Path) -> None:
    save(Model.of(PREDICT, INIT), tmp_path / "model")
    target = tmp_path / "profile.json"
    result = call("profile", tmp_path / "model", "-o", target, "--runs", 2)
    assert result.exit_code == 0, result.output
    assert "3 operators measured on cpu" in result.output
    assert [operator.type for operator in Profile.read(target).operators] == ["FC", "Add", "Relu"]
    np.savez(tmp_path / "inputs.npz", x=np.ones((7, 3), np.float32))
    result = call("profile", tmp_path / "model", "-o", target, "--inputs", tmp_path / "inputs.npz")
    assert result.exit_code == 0, result.output
    assert Profile.read(target).operators[0].inputs[0].shape == (7, 3)
