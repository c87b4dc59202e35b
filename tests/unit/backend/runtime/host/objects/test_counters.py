"""Counters of training programs: what real Caffe2 1.9.1 returned for the same operators, in this order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime import NoBlobError
from caffe2_bridge.control.while_loop import while_arguments
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, TensorProto


def run(workspace: Workspace, op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> Any:
    workspace.run_operator_once(operator(op_type, inputs, outputs, **args))
    if not outputs:
        return None
    value = workspace.fetch(outputs[0])
    assert isinstance(value, np.ndarray)
    assert value.shape == ()
    return value.item()


def test_counters_count_as_in_caffe2() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateCounter", [], ["c"], init_count=2))
    seen = [
        tuple(run(workspace, op_type, ["c"], ["x"]) for op_type in ("CheckCounterDone", "CountDown", "RetrieveCount"))
        for _ in range(4)
    ]
    assert seen == [(False, False, 1), (False, False, 0), (True, True, -1), (True, True, -2)]
    assert run(workspace, "CountUp", ["c"], ["x"]) == -2
    assert run(workspace, "ResetCounter", ["c"], ["x"], init_count=5) == -1
    assert run(workspace, "CountUp", ["c"], ["x"]) == 5
    run(workspace, "ResetCounter", ["c"], [])
    assert run(workspace, "RetrieveCount", ["c"], ["x"]) == 0
    assert workspace.blobs() == ["c", "x"]
    with pytest.raises(RunError, match="blob 'c' is not a tensor"):
        workspace.fetch("c")


def test_counters_are_exact_under_threads() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateCounter", [], ["c"]))
    count = operator("CountUp", ["c"], ["x"])
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(workspace.run_operator_once, count) for _ in range(400)]:
            done.result()
    assert run(workspace, "RetrieveCount", ["c"], ["x"]) == 400


def test_an_operator_on_another_object_is_refused() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateMutex", [], ["m"]))
    workspace.feed("t", 1)
    with pytest.raises(RunError, match=r"blob 'm' must be a .*Counter.*, and is a .*mutex"):
        run(workspace, "CountUp", ["m"], ["x"])
    with pytest.raises(RunError, match=r"blob 't' must be a .*Counter.*, and is a tensor or a text"):
        run(workspace, "CountUp", ["t"], ["x"])
    with pytest.raises(NoBlobError, match="CountUp reads blob 'nothing'"):
        run(workspace, "CountUp", ["nothing"], ["x"])


def test_a_counter_lives_between_nets() -> None:
    workspace = Workspace()
    workspace.run_net_once(NetDef(name="init", op=[operator("CreateCounter", [], ["c"], init_count=3)]))
    step = NetDef(name="step", op=[operator("CountDown", ["c"], ["done"])])
    workspace.create_net(step)
    seen = []
    for _ in range(5):
        workspace.run_net("step")
        seen.append(bool(workspace.fetch("done")))
    assert seen == [False, False, False, True, True]
    trace = workspace.run_net("step", every_blob=True)
    assert trace.steps
    workspace.run_operator_once(operator("RetrieveCount", ["c"], ["n"]))
    assert workspace.fetch("n") == np.int64(-3)


def test_a_counter_ends_a_loop() -> None:
    body = [
        operator("Add", ["total", "total"], ["total"]),
        operator("CountDown", ["c"], ["done"]),
        operator("Not", ["done"], ["go"]),
    ]
    loop = operator("While", ["go"], ["go", "total"], **while_arguments(NetDef(name="body", op=body)))
    net = NetDef(
        name="net",
        op=[
            operator("CreateCounter", [], ["c"], init_count=3),
            operator("ConstantFill", [], ["go"], shape=[1], dtype=TensorProto.BOOL, value=1),
            operator("ConstantFill", [], ["total"], shape=[1], value=1.0),
            loop,
        ],
        external_output=["total"],
    )
    workspace = Workspace()
    workspace.run_net_once(net)
    np.testing.assert_array_equal(workspace.fetch("total"), [16.0])
