"""Batches without sequences, on which onnxruntime's LSTM and GRU end the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from caffe2_backend.runtime.sessions.empty_sequences import Needed, needed_dims
from caffe2_backend.runtime.sessions.session import Binding, Session
from caffe2_bridge.diagnostics import RunError

HIDDEN = 3


def recurrent(kind: str, x: str = "float[T, N, 2] x", before: str = "", operand: str = "x") -> bytes:
    """A model with one recurrent operator that reads ``operand``."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> g ({x}) => (float[A, 1, B, {HIDDEN}] y) '
        f"{{ {before} y = {kind} <hidden_size = {HIDDEN}> ({operand}, w, r) }}"
    )
    for name, columns in (("w", 2), ("r", HIDDEN)):
        weights = np.ones((1, gates * HIDDEN, columns), np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    data: bytes = model.SerializeToString()
    return data


def zeros(*shape: int) -> dict[str, Any]:
    return {"x": np.zeros(shape, np.float32)}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (recurrent("LSTM"), [("x", 1)]),
        (recurrent("GRU"), [("x", 0), ("x", 1)]),
        (recurrent("LSTM", "float[N, T, 2] x", "t = Transpose <perm = [1, 0, 2]> (x)", "t"), [("x", 0)]),
        (recurrent("LSTM", "float[T, 4, 2] x"), []),
    ],
    ids=["LSTM", "GRU", "transposed", "known"],
)
def test_dims_that_are_needed(model: bytes, expected: list[tuple[str, int]]) -> None:
    assert [(dim.input, dim.axis) for dim in needed_dims(model)] == expected


def test_dims_without_names_are_followed_too() -> None:
    model = onnx.ModelProto.FromString(recurrent("LSTM", before="t = Transpose <perm = [1, 0, 2]> (x)", operand="t"))
    for dim in model.graph.input[0].type.tensor_type.shape.dim[:2]:
        dim.ClearField("dim_param")
    assert [(dim.input, dim.axis) for dim in needed_dims(model.SerializeToString())] == [("x", 0)]


def test_dims_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(recurrent("LSTM"))
    assert needed_dims(str(tmp_path / "m.onnx")) == (Needed("x", 1, "the input of LSTM ''"),)


@pytest.mark.parametrize(("kind", "shape"), [("LSTM", (5, 0, 2)), ("GRU", (5, 0, 2)), ("GRU", (0, 4, 2))])
def test_the_process_does_not_end(kind: str, shape: tuple[int, int, int]) -> None:
    session = Session(recurrent(kind))
    with pytest.raises(RunError, match="run the model on one sequence at least"):
        session.run(zeros(*shape))
    with pytest.raises(RunError, match="run the model on one sequence at least"):
        session.run_on_device(zeros(*shape))
    with pytest.raises(RunError, match="run the model on one sequence at least"):
        Binding(session).bind_input("x", zeros(*shape)["x"])
    assert session.run(zeros(5, 4, 2))["y"].shape == (5, 1, 4, HIDDEN)


def test_no_steps_are_run() -> None:
    assert Session(recurrent("LSTM")).run(zeros(0, 4, 2))["y"].shape == (0, 1, 4, HIDDEN)


def test_no_steps_of_known_lengths_are_run() -> None:
    model = onnx.ModelProto.FromString(recurrent("GRU", "float[T, N, 2] x, int32[N] lengths"))
    model.graph.node[0].input.extend(["", "lengths"])
    session = Session(model.SerializeToString())
    assert session.run(zeros(0, 4, 2) | {"lengths": np.zeros(4, np.int32)})["y"].shape == (0, 1, 4, HIDDEN)
    with pytest.raises(RunError, match="run the model on one sequence at least"):
        session.run(zeros(5, 0, 2) | {"lengths": np.zeros(0, np.int32)})
