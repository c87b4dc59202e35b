"""Plans whose steps run in threads; what steps mean is compared with real Caffe2 in workspace/test_like_caffe2.py."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.calls.plan_runner import run_plan
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef


def net(name: str, *ops: OperatorDef) -> NetDef:
    return NetDef(name=name, op=ops)


def step(*parts: str | ExecutionStep, **fields: Any) -> ExecutionStep:
    made = ExecutionStep(name="step", **fields)
    for part in parts:
        if isinstance(part, str):
            made.network.append(part)
        else:
            made.substep.append(part)
    return made


def together(*parts: ExecutionStep, **fields: Any) -> ExecutionStep:
    return step(*parts, concurrent_substeps=True, **fields)


QUEUE = operator("CreateBlobsQueue", [], ["q"], capacity=2)
READ = net("read", operator("DequeueBlobs", ["q"], ["x"]))
FAIL = net("fail", operator("Fail", [], []))
COUNT = net("count", operator("CountUp", ["c"], ["n"]))


def run(workspace: Workspace, *nets: NetDef, steps: list[ExecutionStep]) -> None:
    run_plan(workspace, PlanDef(name="plan", network=nets, execution_step=steps))


def test_a_queue_between_two_steps() -> None:
    """Write numbers of a counter in one step, and add them up in the other until the queue is closed."""
    workspace = Workspace()
    workspace.run_net_once(
        net("init", QUEUE, operator("CreateCounter", [], ["c"]), operator("ConstantFill", [], ["sum"], shape=[1]))
    )
    produce = net(
        "produce",
        operator("CountUp", ["c"], ["n"]),
        operator("Cast", ["n"], ["f"], to=1),
        operator("EnqueueBlobs", ["q", "f"], ["f"]),
    )
    consume = net("consume", operator("SafeDequeueBlobs", ["q"], ["x", "done"]))
    add = net("add", operator("Add", ["sum", "x"], ["sum"]))
    close = net("close", operator("CloseBlobsQueue", ["q"], []))
    run(
        workspace, produce, consume, add, close,
        steps=[
            together(
                step(step("produce", num_iter=50), step("close")), step("consume", "add", should_stop_blob="done")
            )
        ],
    )  # fmt: skip
    assert workspace.fetch("sum") == sum(range(50))


def test_updates_of_concurrent_steps_are_not_lost() -> None:
    """Update one blob by nets of several threads, as in Hogwild training."""
    workspace = Workspace()
    workspace.run_net_once(net("init", *(operator("ConstantFill", [], [name], shape=[1]) for name in ("w", "b"))))
    workspace.feed("one", np.float32([1]))
    nets = [
        net(f"add{i}", operator("Add", ["w", "one"], ["w"]), operator("Sub", ["b", "one"], ["b"])) for i in range(3)
    ]
    run(workspace, *nets, steps=[together(*(step(f"add{i}", num_iter=30) for i in range(3)))])
    assert workspace.fetch("w") == 90
    assert workspace.fetch("b") == -90


def test_a_failure_wakes_those_that_wait() -> None:
    workspace = Workspace()
    workspace.run_operator_once(QUEUE)
    start = time.monotonic()
    with pytest.raises(RunError, match=r"fail.* Fail: the operator always fails"):
        run(workspace, READ, FAIL, steps=[together(step("read"), together(step("read"), step("fail")), step("read"))])
    assert time.monotonic() - start < 20
    workspace.feed("x", 1)
    workspace.run_operator_once(operator("EnqueueBlobs", ["q", "x"], ["x"]))
    workspace.run_operator_once(operator("DequeueBlobs", ["q"], ["y"]))  # nobody else waits any more
    assert workspace.fetch("y") == 1


def test_a_failure_ends_the_iterations_of_others() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateCounter", [], ["c"]))
    with pytest.raises(RunError, match="Fail"):
        run(workspace, COUNT, FAIL, steps=[together(step("count", num_iter=10**9), step("fail"))])


def test_periodic_steps_run_until_the_others_have_ended(caplog: pytest.LogCaptureFixture) -> None:
    workspace = Workspace()
    workspace.run_net_once(net("init", QUEUE, operator("CreateCounter", [], ["c"])))
    wait = net("wait", operator("CountUp", ["c"], ["n"]), operator("Fail", [], []))
    slow = net("slow", operator("DequeueBlobs", ["q"], ["x"], timeout_secs=0.35))
    with caplog.at_level(logging.WARNING), pytest.raises(RunError, match="queue 'q' is closed, or was empty"):
        run(workspace, slow, wait, steps=[step(step("slow"), step("wait", run_every_ms=100))])
    workspace.run_operator_once(operator("RetrieveCount", ["c"], ["n"]))
    assert int(np.asarray(workspace.fetch("n"))) >= 2  # after 100 ms, and at the end
    assert "Error running report step" in caplog.text


def test_instances_with_workspaces_of_their_own() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateCounter", [], ["c"]))
    own = net(
        "own",
        operator("CreateCounter", [], ["mine"]),
        operator("CountUp", ["mine"], ["zero"]),
        operator("CountUp", ["c"], ["n"]),
    )
    run(workspace, own, steps=[step(step("own", num_iter=3, create_workspace=True), num_concurrent_instances=4)])
    assert workspace.blobs() == ["c"]
    assert workspace.nets() == []
    workspace.run_operator_once(operator("RetrieveCount", ["c"], ["n"]))
    assert workspace.fetch("n") == 12
