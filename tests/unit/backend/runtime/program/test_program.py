"""Programs that several threads run at the same time, and the threads that they run in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def test_constants_are_those_of_the_inputs() -> None:
    """Check that inputs collected before another run chose the constants keep their own values."""
    program = Program(NetDef(name="net", op=[operator("Add", ["x", "c"], ["y"])]))
    x = np.zeros(2, np.float32)
    constant = np.ones(2, np.float32)
    first = program.collect({"x": x, "c": constant})
    second = program.collect({"x": x, "c": constant * 5})
    np.testing.assert_array_equal(program.run(first, {"c": constant}).values["y"], [1, 1])  # type: ignore[arg-type]
    np.testing.assert_array_equal(program.run(second, {"c": constant}).values["y"], [5, 5])  # type: ignore[arg-type]
    np.testing.assert_array_equal(program.run(first, {"c": constant}).values["y"], [1, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "asked", "expected"), [(10, None, 1), (1 << 17, None, None), (10, 2, 2)])
def test_nets_of_tiny_inputs_run_in_one_thread(
    size: int, asked: int | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int | None] = []
    real = Session.__init__

    def init(self: Session, *args: Any, options: SessionOptions, **others: Any) -> None:
        threads.append(options.threads)
        real(self, *args, options=options, **others)

    monkeypatch.setattr(Session, "__init__", init)
    net = NetDef(name="net", op=[operator("Sub", ["x", f"size{size}"], ["y"])])
    program = Program(net, options=SessionOptions(threads=asked, entries={"session.test": f"{size} {asked}"}))
    x = np.ones(size, np.float32)
    program.run(program.collect({"x": x, f"size{size}": x}))
    assert threads == [expected]


def chain(length: int) -> NetDef:
    ops = [operator("Add", [f"x{index}", "x0"], [f"x{index + 1}"]) for index in range(length)]
    return NetDef(name="net", op=ops, external_input=["x0"], external_output=[f"x{length}"])


def test_many_blobs_that_are_asked_for_after_runs_need_no_conversion() -> None:
    program = Program(chain(12))
    counts = []
    for value in (1.0, 2.0, 3.0):
        results = program.run({"x0": np.full(1, value, np.float32)})
        blobs = {**results.values, **{name: blob.compute(name) for name, blob in results.deferred.items()}}
        assert {name: array.item() for name, array in blobs.items()} == {  # type: ignore[union-attr]  # arrays
            f"x{index}": value * (index + 1) for index in range(1, 13)
        }
        counts.append(program.conversions)
    assert counts == [1, 1, 1]
    assert not results.deferred


def test_a_few_blobs_are_returned_by_later_runs() -> None:
    program = Program(chain(12))
    given = {"x0": np.ones(1, np.float32)}
    program.run(given).deferred["x3"].compute("x3")
    assert program.run(given).values.keys() == {"x3", "x12"}


def test_blobs_that_are_not_tensors_do_not_hide_others() -> None:
    ops = [operator("CreateMutex", [], ["mutex"]), *chain(6).op]
    program = Program(NetDef(name="net", op=ops, external_input=["x0"], external_output=["x6"]))
    deferred = program.run({"x0": np.ones(1, np.float32)}).deferred
    assert [deferred[f"x{index}"].compute(f"x{index}").item() for index in range(1, 6)] == [2, 3, 4, 5, 6]  # type: ignore[union-attr]  # arrays


def test_a_blob_that_is_changed_in_place_is_computed_as_the_net_leaves_it() -> None:
    """The converted net has an earlier value under its name."""
    ops = [
        operator("Tanh", ["x"], ["table"]),
        operator("ScatterWeightedSum", ["table", "one", "ids", "rows", "one"], ["table"]),
        operator("Gather", ["table", "ids"], ["y"]),
    ]
    given = {"x": np.zeros((3, 2), np.float32), "one": np.ones(1, np.float32), "ids": np.array([2, 0])}
    given["rows"] = np.array([[1, 2], [3, 4]], np.float32)
    results = Program(NetDef(name="net", op=ops)).run(given)
    np.testing.assert_array_equal(results.deferred["table"].compute("table"), [[3, 4], [0, 0], [1, 2]])  # type: ignore[arg-type]


TRAINING = [
    operator("FC", ["x", "w", "b"], ["scores"]),
    operator("SoftmaxWithLoss", ["scores", "label"], ["softmax", "loss"]),
    operator("Accuracy", ["softmax", "label"], ["accuracy"]),
    operator("ConstantFill", ["loss"], ["loss_grad"], value=1.0),
    operator("SoftmaxWithLossGradient", ["scores", "label", "softmax", "loss_grad"], ["scores_grad"]),
    operator("FCGradient", ["x", "w", "scores_grad"], ["w_grad", "b_grad", "x_grad"]),
    operator("WeightedSum", ["w", "one", "w_grad", "lr"], ["w"]),
    operator("WeightedSum", ["b", "one", "b_grad", "lr"], ["b"]),
]


@pytest.mark.parametrize("declared", [[], ["x_grad"]])
def test_blobs_that_are_not_declared_need_no_conversion(declared: list[str]) -> None:
    workspace = Workspace()
    random = np.random.default_rng(0)
    for name, shape in {"x": (4, 3), "w": (2, 3), "b": (2,), "one": (1,), "lr": (1,)}.items():
        workspace.feed(name, random.standard_normal(shape).astype(np.float32))
    workspace.feed("label", np.array([0, 1, 1, 0], np.int32))
    workspace.create_net(NetDef(name="step", op=TRAINING, external_output=declared))
    counts = []
    for blobs in (
        ["loss", "accuracy", *declared],
        ["scores"],
        ["softmax", "w_grad"],
        ["scores_grad", "b_grad"],
        ["loss_grad"],
    ):
        for _ in range(3):
            workspace.run_net("step")
            for blob in blobs:
                workspace.fetch(blob)
        counts.append(workspace.conversions())
    assert counts == [1, 1, 1, 1, 1]
