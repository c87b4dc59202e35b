"""Loops that a counter ends run in bursts, and do what single steps do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.calls import counted_loops
from caffe2_backend.runtime.calls.plan_runner import run_plan
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef

TIMES = 500


def net(name: str, *ops: OperatorDef) -> NetDef:
    return NetDef(name=name, op=ops)


ADD = operator("Add", ["sum", "one"], ["sum"])
TEST = net("test", operator("CountDown", ["counter"], ["stop"]))


@pytest.fixture
def bursts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the net ran in each burst."""
    steps: list[int] = []
    real = Workspace.run_burst

    def run_burst(self: Workspace, *args: Any) -> int:
        steps.append(real(self, *args))
        return steps[-1]

    monkeypatch.setattr(Workspace, "run_burst", run_burst)
    return steps


def prepared(count: int = TIMES) -> Workspace:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateCounter", [], ["counter"], init_count=count))
    workspace.feed("sum", np.zeros(3, np.float32))
    workspace.feed("one", np.ones(3, np.float32))
    return workspace


def loop(workspace: Workspace, body: NetDef, test: NetDef = TEST, **fields: Any) -> None:
    step = ExecutionStep(name="loop", network=[test.name, body.name], should_stop_blob="stop", **fields)
    run_plan(workspace, PlanDef(name="plan", network=[test, body], execution_step=[step]))


def count(workspace: Workspace) -> Any:
    workspace.run_operator_once(operator("RetrieveCount", ["counter"], ["count"]))
    return workspace.fetch("count")


@pytest.mark.parametrize("times", [0, 1, 2, TIMES])
def test_the_body_runs_as_often_as_the_counter_says(times: int, bursts: list[int]) -> None:
    workspace = prepared(times)
    loop(workspace, net("body", ADD))
    np.testing.assert_array_equal(workspace.fetch("sum"), np.full(3, times, np.float32))
    assert workspace.fetch("stop") == np.True_
    assert count(workspace) == -1
    assert sum(bursts) == times
    assert times < TIMES or len(bursts) < TIMES


@pytest.mark.parametrize(
    "body",
    [
        net("body", ADD, operator("RetrieveCount", ["counter"], ["seen"])),
        net("body", ADD, operator("Copy", ["stop"], ["seen"])),
    ],
    ids=["counter", "result"],
)
def test_a_body_that_sees_the_counter_runs_step_by_step(body: NetDef, bursts: list[int]) -> None:
    workspace = prepared(5)
    loop(workspace, body)
    np.testing.assert_array_equal(workspace.fetch("sum"), [5, 5, 5])
    assert not workspace.fetch("seen")
    assert bursts == []


def test_a_body_with_host_operators(bursts: list[int]) -> None:
    workspace = prepared(5)
    workspace.run_operator_once(operator("CreateCounter", [], ["other"]))
    loop(workspace, net("body", ADD, operator("CountUp", ["other"], ["seen"])))
    assert workspace.fetch("seen") == 4
    assert bursts == [1] * 5


def test_a_failing_body_has_counted_like_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index a vector by the sum so far in the body, until it is out of range."""
    ops = (
        ADD,
        operator("SumElements", ["sum"], ["total"]),
        operator("Cast", ["total"], ["index"], to=2),
        operator("Gather", ["numbers", "index"], ["found"]),
    )
    found = []
    for single in (False, True):
        if single:
            monkeypatch.setattr(counted_loops.CountedLoop, "run", lambda *_: False)
        workspace = prepared()
        workspace.feed("numbers", np.arange(100, dtype=np.float32))
        with pytest.raises(RunError):
            loop(workspace, net("body", *ops))
        found.append((int(count(workspace)), np.asarray(workspace.fetch("sum")).tolist()))
    assert found[0] == found[1]


def test_other_conditions_are_left_alone(bursts: list[int]) -> None:
    workspace = prepared(5)
    loop(workspace, net("body", ADD), net("test", operator("CountDown", ["counter"], ["stop"]), ADD))
    np.testing.assert_array_equal(workspace.fetch("sum"), [11, 11, 11])
    workspace.feed("counter", np.float32([1]))
    with pytest.raises(RunError, match="must be a"):
        loop(workspace, net("body", ADD))
    workspace = prepared(5)
    loop(workspace, net("body", ADD), only_once=True)
    np.testing.assert_array_equal(workspace.fetch("sum"), [1, 1, 1])
    assert bursts == []
