"""Which inputs are of the kind of the last run, and what runs on those and on others compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import ConversionError, Predictor, RunError, Workspace
from caffe2_backend.runtime.program.program import Program
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, TensorProto

W = np.arange(6, dtype=np.float32).reshape(2, 3)
X = np.ones((1, 3), np.float32)
OPS = [operator("FC", ["x", "w", "b"], ["h"]), operator("Relu", ["h"], ["y"])]
FILLS = [
    operator("GivenTensorFill", [], ["w"], shape=[2, 3], values=W.ravel().tolist()),
    operator("GivenTensorFill", [], ["b"], shape=[2], values=[-10.0, 1.0]),
]


def expected(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], w: object = W) -> object:
    return np.maximum(x @ np.asarray(w).T + [-10, 1], 0)


def workspace() -> tuple[Workspace, str]:
    made = Workspace()
    made.run_net_once(NetDef(name="init", op=FILLS))
    made.feed("x", X)
    net = NetDef(name="net", op=OPS, external_input=["x", "w", "b"], external_output=["y"])
    return made, made.create_net(net)


def test_a_workspace_follows_its_blobs() -> None:
    space, net = workspace()
    for x in (X, X, 2 * X, np.concatenate([X, -X]), 3 * X, X.astype(np.float32)):
        space.feed("x", x)
        for _ in range(2):
            space.run_net(net)
            np.testing.assert_allclose(space.fetch("y"), expected(x))
    assert space.conversions() == 1


def test_blobs_that_a_run_does_not_return_are_computed_from_its_own_inputs() -> None:
    space, net = workspace()
    space.run_net(net)
    space.run_net(net)
    space.feed("x", 5 * X)
    np.testing.assert_allclose(space.fetch("h"), X @ W.T + [-10, 1])
    space.run_net(net)
    np.testing.assert_allclose(space.fetch("h"), 5 * X @ W.T + [-10, 1])


def test_a_constant_that_changes_becomes_an_input() -> None:
    space, net = workspace()
    space.run_net(net)
    space.run_net(net)
    space.feed("w", -W)
    for _ in range(2):
        space.run_net(net)
        np.testing.assert_allclose(space.fetch("y"), expected(X, -W))


def test_inputs_of_another_kind_are_converted_anew() -> None:
    space, net = workspace()
    space.run_net(net)
    space.feed("x", np.ones((2, 3), np.float64))
    with pytest.raises(ConversionError, match="inconsistent type"):
        space.run_net(net)
    space.feed("x", X)
    space.run_net(net)
    np.testing.assert_allclose(space.fetch("y"), expected(X))


def test_errors_of_repeated_runs_are_those_of_first_ones() -> None:
    space, net = workspace()
    space.run_net(net)
    space.feed("x", np.ones((1, 4), np.float32))
    messages = []
    for _ in range(2):
        with pytest.raises(RunError) as caught:
            space.run_net(net)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_predictor_follows_its_inputs() -> None:
    net = NetDef(name="n", op=OPS, external_input=["x", "w", "b"], external_output=["y"])
    predictor = Predictor(Model.of(net, NetDef(name="init", op=FILLS)))
    kept = []
    for x in (X, X, 2 * X, np.concatenate([X, -X]), np.asfortranarray(np.concatenate([X, X]))):
        kept.append((x, predictor.run({"x": x})))
        kept.append((x, predictor.run({"x": x})))
    for x, results in kept:
        np.testing.assert_allclose(results["y"], expected(x))
    np.testing.assert_allclose(predictor.run({"x": X, "w": -W})["y"], expected(X, -W))
    with pytest.raises(RunError, match="input 'other' does not exist"):
        predictor.run({"x": X, "other": X})
    with pytest.raises(RunError, match="x"):
        predictor.run({"x": np.ones((1, 4), np.float32)})
    with pytest.raises(RunError, match="x"):
        predictor.run({})


def test_an_array_of_a_blob_stays_as_it_was() -> None:
    space, net = workspace()
    held = []
    for i in range(8):
        space.feed("x", i * X)
        space.run_net(net)
        held.append(space.host_array("y"))
    for i, y in enumerate(held):
        np.testing.assert_allclose(y, expected(i * X))


def step_net(*ops: OperatorDef) -> tuple[Workspace, Program]:
    space = Workspace()
    space.create_net(NetDef(name="step", op=ops))
    stage: Any = space._nets["step"].stages[0]
    program: Program = stage.program
    return space, program


def test_a_step_starts_with_what_the_last_one_left() -> None:
    space, program = step_net(operator("Add", ["w", "x"], ["w"]))
    space.feed("w", np.zeros(3, np.float32))
    space.feed("x", np.ones(3, np.float32))
    for _ in range(4):
        space.run_net("step")
    left = program.recognize(space._store.get)
    assert left is not None
    assert left["w"] is space._store.get("w")
    assert program.recognize(space._store.get) is left
    np.testing.assert_array_equal(space.fetch("w"), [4, 4, 4])


def test_a_state_that_grows_is_of_another_kind_each_time() -> None:
    space, _ = step_net(
        operator("Concat", ["w", "x"], ["longer", "split"], axis=0), operator("Copy", ["longer"], ["w"])
    )
    space.feed("w", np.zeros(1, np.float32))
    space.feed("x", np.ones(2, np.float32))
    for steps in range(1, 6):
        space.run_net("step")
        np.testing.assert_array_equal(space.fetch("w"), [0, *[1] * 2 * steps])


def test_a_state_whose_type_changes_is_of_another_kind() -> None:
    space, _ = step_net(operator("Cast", ["w"], ["cast"], to=TensorProto.INT32), operator("Copy", ["cast"], ["w"]))
    for value in (np.full(2, 1.5, np.float32), np.full(2, 2.5, np.float64)):
        space.feed("w", value)
        for _ in range(3):
            space.run_net("step")
            found = space.fetch("w")
            assert isinstance(found, np.ndarray)
            assert found.dtype == np.int32
            np.testing.assert_array_equal(found, value.astype(np.int32))


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (np.ones((4, 3), np.float32), True),
        (np.ones((4, 3), np.float64), False),
        (np.ones(3, np.float32), False),
        (np.ones((4, 3), np.float32).view(np.matrix), False),
        (None, False),
        (b"text", False),
    ],
)
def test_the_kind_is_the_type_and_the_rank(value: Any, fits: bool) -> None:
    program = Program(NetDef(name="net", op=[operator("Relu", ["x"], ["y"])]))
    program.run(program.collect({"x": X}))
    found = program.recognize({"x": value}.get)
    assert (found is not None) == fits
    if found is not None:
        assert found["x"] is value


def test_a_training_net_is_of_one_kind_only_while_all_sizes_stay() -> None:
    space, program = step_net(operator("SumElements", ["x"], ["s"]), operator("Add", ["w", "s"], ["w"], broadcast=1))
    space.feed("w", np.zeros(2, np.float32))
    space.feed("x", np.ones(3, np.float32))
    space.run_net("step")
    assert program.recognize({"w": np.ones(2, np.float32), "x": X[0]}.get) is not None
    assert program.recognize({"w": np.ones(2, np.float32), "x": np.ones(5, np.float32)}.get) is None
    space.feed("x", np.ones(5, np.float32))
    space.run_net("step")
    np.testing.assert_array_equal(space.fetch("w"), [8, 8])


def test_the_inputs_of_the_last_run_are_recognized_as_they_are() -> None:
    program = Program(NetDef(name="net", op=[operator("Relu", ["x"], ["y"])]))
    for x in (X, X + 1, X + 2):
        for _ in range(3):
            program.run(program.collect({"x": x}))
            left = program.recognize({"x": x}.get)
            assert left is not None
            assert program.recognize({"x": x}.get) is left
