"""Bursts of steps: they compute what single steps do, and end where others could tell the difference."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.blobs import burst
from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.program.states import resident
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


@pytest.fixture(autouse=True)
def long_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burst, "SECONDS", 60.0)


def workspace_with(ops: list[OperatorDef], **feeds: Any) -> Workspace:
    workspace = Workspace()
    for name, value in feeds.items():
        workspace.feed(name, value)
    workspace.create_net(NetDef(name="step", op=ops))
    return workspace


def values(workspace: Workspace) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.asarray(workspace.fetch(name)) for name in workspace.blobs()}


DENSE = [
    operator("Negative", ["w"], ["before"]),
    operator("Mul", ["w", "x"], ["y"]),
    operator("Add", ["w", "y"], ["w"]),
    operator("Iter", ["iter"], ["iter"]),
    operator("GT", ["w", "x"], ["greater"]),
    operator("BooleanMask", ["w", "greater"], ["found"]),
]
FEEDS = {"w": np.ones(3, np.float32), "x": np.array([0.5, 0, -1], np.float32), "iter": np.zeros(1, np.int64)}
TABLE = [
    operator("Gather", ["table", "ids"], ["rows"]),
    operator("SparseAdagrad", ["table", "moment", "ids", "rows", "lr"], ["table", "moment"]),
    operator("Add", ["bias", "lr"], ["bias"]),
    operator("ReduceFrontSum", ["rows"], ["sum"]),
    operator("Copy", ["bias"], ["copy"]),
]
TABLE_FEEDS = {
    "table": np.arange(12, dtype=np.float32).reshape(6, 2),
    "moment": np.ones((6, 2), np.float32),
    "ids": np.array([3, 1, 3]),
    "lr": np.array([-0.5], np.float32),
    "bias": np.zeros(1, np.float32),
}


@pytest.mark.parametrize("times", [1, 2, 3, 7])
@pytest.mark.parametrize(("ops", "feeds"), [(DENSE, FEEDS), (TABLE, TABLE_FEEDS)])
def test_a_burst_is_so_many_steps(
    ops: list[OperatorDef], feeds: dict[str, Any], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "LARGE", 0)
    one, other = workspace_with(ops, **feeds), workspace_with(ops, **feeds)
    for _ in range(3):
        one.run_net("step", times)
        for _ in range(times):
            other.run_net("step")
        found, expected = values(one), values(other)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_zero_steps_change_nothing() -> None:
    workspace = workspace_with(DENSE, **FEEDS)
    workspace.run_net("step", 0)
    np.testing.assert_array_equal(workspace.fetch("w"), FEEDS["w"])


def test_the_steps_before_one_that_fails_count() -> None:
    """Fail in the fourth step, which gathers a missing element, after two operators whose results stay as in Caffe2."""
    ops = [
        operator("Add", ["w", "one"], ["w"]),
        operator("Add", ["at", "two"], ["at"]),
        operator("Gather", ["x", "at"], ["g"]),
    ]
    feeds = {"w": np.zeros(1, np.float32), "one": np.ones(1, np.float32), "at": np.array([0]), "two": np.array([2])}
    workspace = workspace_with(ops, x=np.arange(8, dtype=np.float32), **feeds)
    with pytest.raises(RunError):
        workspace.run_net("step", 9)
    assert {name: np.asarray(workspace.fetch(name)).tolist() for name in ("w", "at", "g")} == {
        "w": [4], "at": [8], "g": [6]
    }  # fmt: skip


def test_a_burst_ends_when_a_blob_is_written() -> None:
    workspace = workspace_with(DENSE, **FEEDS)
    workspace.run_net("step", 3)
    steps = workspace._store.burst(1_000_000)
    assert steps.goes_on()
    workspace.feed("x", np.zeros(3, np.float32))
    assert not steps.goes_on()
    assert steps.steps == 2


def test_what_another_thread_feeds_reaches_the_next_step() -> None:
    """Run a net until a blob is fed that keeps its counter from growing."""
    workspace = workspace_with(
        [operator("Add", ["n", "one"], ["n"])], n=np.zeros(1, np.int64), one=np.ones(1, np.int64)
    )
    workspace.run_net("step", 2)
    thread = threading.Thread(target=workspace.run_net, args=("step", 20_000))
    thread.start()
    workspace.feed("one", np.zeros(1, np.int64))
    thread.join()
    total = int(np.asarray(workspace.fetch("n"))[0])
    assert total <= 20_002
    workspace.run_net("step", 5)
    assert int(np.asarray(workspace.fetch("n"))[0]) == total


def test_a_burst_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(burst, "SECONDS", -1.0)
    assert not Burst(9, lambda: True).goes_on()
    monkeypatch.setattr(burst, "SECONDS", 60.0)
    long = Burst(3, lambda: True)
    assert [long.goes_on() for _ in range(3)] == [True, True, False]
    assert long.steps == 3
    long.take_back()
    assert long.steps == 2


def test_a_single_step_has_no_successor() -> None:
    assert not ONCE.goes_on()
    assert ONCE.steps == 1
