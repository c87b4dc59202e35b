"""Operands on which onnxruntime ends the process: sessions report them instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from caffe2_backend import Predictor
from caffe2_backend.runtime.sessions.guard import Guard
from caffe2_backend.runtime.sessions.session import Binding, Session
from caffe2_bridge.diagnostics import RunError

HIDDEN = 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIED = "onnxruntime would end the process"


def weights(kind: str) -> list[onnx.TensorProto]:
    """Return the weights w and r of a recurrent operator."""
    return [
        onnx.numpy_helper.from_array(np.ones((1, GATES[kind] * HIDDEN, columns), np.float32), name)
        for name, columns in (("w", 2), ("r", HIDDEN))
    ]


def model(body: str, inputs: str = "float[T, N, 2] x", output: str = f"float[A, 1, B, {HIDDEN}] y") -> onnx.ModelProto:
    """Return a model of some nodes."""
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g ({inputs}) => ({output}) {{ {body} }}')


def recurrent(kind: str, x: str = "float[T, N, 2] x", before: str = "", operand: str = "x") -> bytes:
    """Return a model with one recurrent operator that reads ``operand``."""
    made = model(f"{before} y = {kind} <hidden_size = {HIDDEN}> ({operand}, w, r)", x)
    made.graph.initializer.extend(weights(kind))
    return bytes(made.SerializeToString())


def zeros(*shape: int) -> dict[str, Any]:
    return {"x": np.zeros(shape, np.float32)}


def axes_of(guard: Guard) -> list[tuple[str, int]]:
    return [(each.input, axis) for each in guard.inputs for axis in each.need.axes or ()]


TRANSPOSED = "t = Transpose <perm = [1, 0, 2]> (x)"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (recurrent("LSTM"), [("x", 1)]),
        (recurrent("GRU"), [("x", 0), ("x", 1)]),
        (recurrent("RNN"), []),
        (recurrent("LSTM", "float[N, T, 2] x", TRANSPOSED, "t"), [("x", 0)]),
        (recurrent("LSTM", "float[T, 4, 2] x"), []),
    ],
    ids=["LSTM", "GRU", "RNN", "transposed", "known"],
)
def test_dims_of_inputs(given: bytes, expected: list[tuple[str, int]]) -> None:
    guard = Guard.of(given)
    assert axes_of(guard) == expected
    assert guard.model is given


def test_dims_without_names_are_followed_too() -> None:
    made = onnx.ModelProto.FromString(recurrent("LSTM", before=TRANSPOSED, operand="t"))
    for dim in made.graph.input[0].type.tensor_type.shape.dim[:2]:
        dim.ClearField("dim_param")
    assert axes_of(Guard.of(made.SerializeToString())) == [("x", 0)]


def test_a_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    made = onnx.ModelProto.FromString(recurrent("LSTM"))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1 << 20, np.float32), "large"))
    path.write_bytes(made.SerializeToString())
    guard = Guard.of(str(path))
    assert guard.model == str(path)
    assert axes_of(guard) == [("x", 1)]


def test_what_is_not_a_model_is_left_to_onnxruntime(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff\xff LSTM")
    for given in (b"\xff\xff LSTM", b"\x0a\x01LSTM", str(tmp_path / "m.onnx")):
        assert Guard.of(given).model is given


@pytest.mark.parametrize(("kind", "shape"), [("LSTM", (5, 0, 2)), ("GRU", (5, 0, 2)), ("GRU", (0, 4, 2))])
@pytest.mark.parametrize("before", ["", TRANSPOSED, "s = Shape (x)  t = Reshape (x, s)"])
def test_the_process_does_not_end(kind: str, shape: tuple[int, int, int], before: str) -> None:
    session = Session(recurrent(kind, before=before, operand="t" if before else "x"))
    given, full = (zeros(*dims) for dims in (shape, (5, 4, 2)))
    if before == TRANSPOSED:
        given, full = ({"x": value["x"].transpose(1, 0, 2)} for value in (given, full))
    for run in (session.run, session.run_on_device):
        with pytest.raises(RunError, match=DIED):
            run(given)
    if "Reshape" not in before:
        with pytest.raises(RunError, match=DIED):
            Binding(session).bind_input("x", given["x"])
    assert session.run(full)["y"].shape == (5, 1, 4, HIDDEN)


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 20])
@pytest.mark.parametrize("before", ["", "e = Exp (x)", "s = Shape (x)  e = Reshape (x, s)"])
def test_images_without_pixels_are_not_normalized(before: str, opset: int) -> None:
    made = model(
        f"{before} y = InstanceNormalization ({'e' if before else 'x'}, ones, ones)", "float[N, 2, H, W] x", "float y"
    )
    made.opset_import[0].version = opset
    made.graph.output[0].type.tensor_type.ClearField("shape")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "ones"))
    session = Session(made.SerializeToString())
    for shape in ((1, 2, 0, 3), (1, 2, 3, 0)):
        with pytest.raises(RunError, match="must have elements along .*" + DIED):
            session.run(zeros(*shape))
    assert session.run(zeros(0, 2, 3, 3))["y"].shape == (0, 2, 3, 3)
    assert session.run(zeros(1, 2, 3, 3))["y"].shape == (1, 2, 3, 3)


def test_bound_inputs_of_computed_operands() -> None:
    binding = Binding(Session(recurrent("LSTM", before="s = Shape (x)  t = Reshape (x, s)", operand="t")))
    binding.bind_input("x", zeros(5, 0, 2)["x"])
    binding.bind_output("y", None)
    with pytest.raises(RunError, match=r"input 0 of LSTM must have elements along axis 1: " + DIED):
        binding.run()


BODIES = {
    "Scan": (
        f"y = Scan <num_scan_inputs = 1, body = b (float[N, 2] row) => (float[1, N, {HIDDEN}] h) {{"
        "  axes = Constant <value = int64[1] {0}> ()  one = Unsqueeze (row, axes)"
        f" all, h = LSTM <hidden_size = {HIDDEN}> (one, w, r) }}> (x)"
    ),
    "If": (
        f"c = Constant <value = bool {{1}}> ()  y = If (c) <then_branch = a () => (float[A, 1, B, {HIDDEN}] h) {{"
        f" h = LSTM <hidden_size = {HIDDEN}> (x, w, r) }}, else_branch = b () => (float[A, 1, B, {HIDDEN}] g) {{"
        f" g = LSTM <hidden_size = {HIDDEN}> (x, w, r) }}>"
    ),
    "Loop": (
        "n = Constant <value = int64 {1}> ()  c = Constant <value = bool {1}> ()"
        f" v, y = Loop (n, c, x) <body = b (int64 i, bool go, float[2, 3, 2] u) => (bool go2, float[2, 3, 2] u2,"
        f" float[2, 1, 3, {HIDDEN}] h) {{ go2 = Identity (go)  u2 = Identity (u)"
        f" h = LSTM <hidden_size = {HIDDEN}> (u, w, r) }}>"
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_operators_in_bodies(kind: str) -> None:
    made = model(BODIES[kind], output="float y")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    made.graph.initializer.extend(weights("LSTM"))
    session = Session(made.SerializeToString())
    assert session.run(zeros(2, 3, 2))["y"].size == 2 * 3 * HIDDEN
    with pytest.raises(RunError, match=DIED):
        session.run(zeros(2, 0, 2))


def test_operators_in_functions() -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20, "own" : 1]> g (float[T, N, 2] x) => (float y) { y = own.F (x, w, r) }'
        f'<domain: "own", opset_import: ["" : 20]> F (x, w, r) => (y) {{ y = LSTM <hidden_size = {HIDDEN}> (x, w, r) }}'
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    made.graph.initializer.extend(weights("LSTM"))
    session = Session(made.SerializeToString())
    assert session.run(zeros(2, 3, 2))["y"].shape == (2, 1, 3, HIDDEN)
    with pytest.raises(RunError, match=DIED):
        session.run(zeros(2, 0, 2))


def test_declared_shapes_are_not_believed() -> None:
    made = model(f"t = Reshape (x, s)  y = LSTM <hidden_size = {HIDDEN}> (t, w, r)", "float[T, N, 2] x, int64[3] s")
    declared = made.graph.value_info.add(name="t")
    declared.CopyFrom(made.graph.input[0])
    declared.name = "t"
    for dim, size in zip(declared.type.tensor_type.shape.dim, (5, 4, 2), strict=True):
        dim.dim_value = size
    made.graph.initializer.extend(weights("LSTM"))
    with pytest.raises(RunError, match=f"{DIED}|cannot be reshaped"):  # onnxruntime believes it in its own nodes
        Session(made.SerializeToString()).run(zeros(5, 0, 2) | {"s": np.array([5, 0, 2])})


def test_files_with_computed_operands_and_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    made = onnx.ModelProto.FromString(recurrent("LSTM", before="s = Shape (x)  t = Reshape (x, s)", operand="t"))
    onnx.save_model(made, path, save_as_external_data=True, location="weights", size_threshold=0)
    predictor = Predictor(path)
    assert predictor.run(zeros(5, 4, 2))["y"].shape == (5, 1, 4, HIDDEN)
    with pytest.raises(RunError, match=DIED):
        predictor.run(zeros(5, 0, 2))


def test_no_steps_are_run() -> None:
    for kind, shape in (("LSTM", (0, 4, 2)), ("RNN", (0, 4, 2)), ("RNN", (5, 0, 2))):
        assert Session(recurrent(kind)).run(zeros(*shape))["y"].shape == (shape[0], 1, shape[1], HIDDEN)


def test_no_steps_of_known_lengths_are_run() -> None:
    made = onnx.ModelProto.FromString(recurrent("GRU", "float[T, N, 2] x, int32[N] lengths"))
    made.graph.node[0].input.extend(["", "lengths"])
    session = Session(made.SerializeToString())
    assert session.run(zeros(0, 4, 2) | {"lengths": np.zeros(4, np.int32)})["y"].shape == (0, 1, 4, HIDDEN)
    with pytest.raises(RunError, match=DIED):
        session.run(zeros(5, 0, 2) | {"lengths": np.zeros(0, np.int32)})


def test_known_dims_of_computed_operands() -> None:
    with pytest.raises(RunError, match=r"LSTM: input 0 must have elements along axis 1, and has the shape \[5, 0, 2\]"):
        Session(recurrent("LSTM", "float[0, 5, 2] x", TRANSPOSED, "t"))


def test_computed_divisors() -> None:
    made = model("d = Add (s, s)  y = STFT (x, d, w)", "float[1, 8, 1] x, int64 s, float[4] w", "float[A, B, C, D] y")
    session = Session(made.SerializeToString())
    inputs = {"x": np.ones((1, 8, 1), np.float32), "w": np.ones(4, np.float32)}
    assert session.run(inputs | {"s": np.array(1)})["y"].shape[0] == 1
    with pytest.raises(RunError, match="input 1 of STFT must be one positive number: " + DIED):
        session.run(inputs | {"s": np.array(0)})


def test_ranks_of_computed_operands() -> None:
    names = ("q", "k", "v", "pk", "pv")
    made = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 23]> g ({", ".join(f"float[1, 2, 3, 4] {name}" for name in names)},'
        " int64[R] s) => (float y) { t = Reshape (pv, s)  y, a, b = Attention (q, k, v, , pk, t) }"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    session = Session(made.SerializeToString())
    inputs = {name: np.ones((1, 2, 3, 4), np.float32) for name in names}
    assert session.run(inputs | {"s": np.array([1, 2, 3, 4])})["y"].shape == (1, 2, 3, 4)
    with pytest.raises(RunError, match="input 5 of Attention must have rank 4: " + DIED):
        session.run(inputs | {"s": np.array([2, 12])})


def test_volumes_without_pixels() -> None:
    made = model("y = ConvTranspose (x, w)", "float[N, 2, D, H, W] x", "float[A, 1, B, C, E] y")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 1, 2, 2, 2), np.float32), "w"))
    session = Session(made.SerializeToString())
    assert session.run(zeros(0, 2, 1, 1, 1))["y"].shape == (0, 1, 2, 2, 2)
    for axis in (2, 3):
        with pytest.raises(RunError, match=f"axis {axis}.*{DIED}"):
            session.run(zeros(*(0 if i == axis else 2 for i in range(5))))
    flat = model("y = ConvTranspose (x, w)", "float[N, 2, H, W] x, float[2, 1, 2, 2] w", "float[A, 1, B, C] y")
    found = Session(flat.SerializeToString()).run(zeros(1, 2, 0, 1) | {"w": np.ones((2, 1, 2, 2), np.float32)})
    assert found["y"].shape == (1, 1, 1, 2)


def test_normalization_without_a_bias_that_is_listed() -> None:
    made = model("y = LayerNormalization (x, w, )", "float[2, 3] x, float[3] w", "float[2, 3] y")
    made.graph.node[0].input[:] = ["x", "w", ""]
    found = Session(made.SerializeToString()).run({"x": np.eye(2, 3, dtype=np.float32), "w": np.ones(3, np.float32)})
    assert np.isfinite(found["y"]).all()


def test_models_that_have_checks_get_more(tmp_path: Path) -> None:
    data = recurrent("LSTM", before="s = Shape (x)  t = Reshape (x, s)", operand="t")
    again = Guard.of(Guard.of(data).model).model
    assert isinstance(again, bytes)
    path = tmp_path / "m.onnx"
    path.write_bytes(again)
    with pytest.raises(RunError, match=DIED):
        Session(str(path)).run(zeros(5, 0, 2))


@pytest.mark.parametrize(
    ("body", "text"),
    [("y = Concat <axis = 0> (x, z)", "must have rank 2"), ("y = DFT (x)", "must not be a scalar")],
    ids=["Concat", "DFT"],
)
@pytest.mark.parametrize("before", ["", "t = Identity (x) "])
def test_ranks_that_are_not_declared(body: str, text: str, before: str) -> None:
    made = model(before + body.replace("(x", "(t" if before else "(x"), "float x, float[2, 2] z", "float y")
    for info in (made.graph.input[0], made.graph.output[0]):
        info.type.tensor_type.ClearField("shape")
    session = Session(made.SerializeToString())
    inputs = {"z": np.ones((2, 2), np.float32)}
    shape = (3, 2) if "Concat" in body else (1, 4, 1)
    assert session.run(inputs | {"x": np.ones(shape, np.float32)})["y"].ndim == len(shape)
    with pytest.raises(RunError, match=f"{text}.*{DIED}"):
        session.run(inputs | {"x": np.ones(0 if "Concat" in body else (), np.float32)})
