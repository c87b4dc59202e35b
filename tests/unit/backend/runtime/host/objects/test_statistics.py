"""Statistics and timers: what real Caffe2 1.9.1 did with the same operators."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace, workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def run(space: Workspace, op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> None:
    space.run_operator_once(operator(op_type, inputs, outputs, **args))


def exported(space: Workspace, *registry: str, **args: Any) -> dict[str, int]:
    run(space, "StatRegistryExport", list(registry), ["keys", "values", "times"], **args)
    keys, values, times = (np.asarray(space.fetch(name)) for name in ("keys", "values", "times"))
    assert abs(time.time_ns() - times).max(initial=0) < 10**10
    return {key.decode(): value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}


def test_a_registry_of_its_own() -> None:
    space = Workspace()
    run(space, "StatRegistryCreate", [], ["r"])
    space.feed("keys", np.array(["x/sum", "y"]))
    space.feed("values", np.array([3, 4]))
    for _ in range(2):
        run(space, "StatRegistryUpdate", ["keys", "values", "r"], [])
        space.feed("keys", np.array(["x/sum", "y"]))
    assert exported(space, "r", reset=0) == {"x/sum": 6, "y": 8}
    assert exported(space, "r") == {"x/sum": 6, "y": 8}
    assert exported(space, "r") == {"x/sum": 0, "y": 0}
    space.feed("values", np.array([3]))
    with pytest.raises(RunError, match="2 keys, and 1 values"):
        run(space, "StatRegistryUpdate", ["keys", "values", "r"], [])


def test_numbers_are_put_into_the_registry_of_the_process() -> None:
    space = Workspace()
    exported(space)
    net = NetDef(
        name="net",
        op=[
            operator("IncrementPut", ["v"], [], stat_name="put_in"),
            operator("AveragePut", ["v"], [], stat_name="put_average", magnitude_expand=10),
            operator("StdDevPut", ["v"], [], stat_name="put_deviation"),
            operator("IncrementPut", ["v"], [], stat_name="put_bound", magnitude_expand=2**62, bound=1),
        ],
    )
    space.create_net(net)
    for value in (2.5, -4.5, 7.0):
        space.feed("v", np.float32([value]))
        space.run_net("net")
    found = {key: value for key, value in workspace.GetStats().items() if key.startswith("put_")}
    assert found.pop("put_bound/stat_value") == 2**63 - 2
    assert found == {
        "put_in/stat_value": 2 - 4 + 7,
        "put_average/stat_value/sum": 25 - 45 + 70,
        "put_average/stat_value/count": 3,
        "put_deviation/stat_value/sum": 5,
        "put_deviation/stat_value/count": 3,
        "put_deviation/stat_value/sumoffset": 0 - 6 + 5,
        "put_deviation/stat_value/sumsqoffset": 36 + 25,
    }
    space.feed("v", np.zeros(0, np.float32))
    with pytest.raises(RunError, match="blob 'v' is empty"):
        run(space, "IncrementPut", ["v"], [], stat_name="put_none")
    run(space, "IncrementPut", ["v"], [], stat_name="put_default", default_value=3.0)
    assert workspace.GetStats()["put_default/stat_value"] == 3
    space.feed("v", np.float32([7]))
    with pytest.raises(RunError, match="does not fit into 64 bits"):
        run(space, "IncrementPut", ["v"], [], stat_name="put_none", magnitude_expand=2**62)


def test_timers_add_to_the_statistics() -> None:
    space = Workspace()
    exported(space)
    for _ in range(2):  # an operator that runs once is new each time
        run(space, "TimerBegin", [], ["t"], counter_name="watch")
    run(space, "TimerGet", ["t"], ["a"])
    run(space, "TimerGetAndEnd", ["t"], ["b"])
    a, b = (np.asarray(space.fetch(name)) for name in "ab")
    assert (a.dtype, a.shape, b.dtype, b.shape) == (np.int64, (), np.int64, (1,))
    assert 0 < a <= b[0]
    for op_type, outputs in (("TimerGet", ["a"]), ("TimerEnd", []), ("TimerGetAndEnd", ["b"])):
        with pytest.raises(RunError, match="the timer is not running"):
            run(space, op_type, ["t"], outputs)
    found = exported(space)
    assert found["watch/time_ns/count"] == 1
    assert found["watch/time_ns/sum"] >= b[0]
    net = NetDef(name="net", op=[operator("TimerBegin", [], ["u"]), operator("WallClockTime", [], ["now"])])
    space.create_net(net)
    space.run_net("net")
    assert abs(time.time_ns() - int(np.asarray(space.fetch("now")))) < 10**10
    with pytest.raises(RunError, match="the timer is running already"):
        space.run_net("net")
    run(space, "TimerEnd", ["u"], [])
    assert exported(space)["u/time_ns/count"] == 1


def test_runs_of_atomic_iter_are_counted() -> None:
    space = Workspace()
    run(space, "CreateMutex", [], ["mutex"])
    space.feed("iterations", np.array([7]))
    net = NetDef(name="n", op=[operator("AtomicIter", ["mutex", "iterations"], ["iterations"])])
    exported(space)
    space.create_net(net)
    for _ in range(3):
        space.run_net("n")
    assert exported(space)["atomic_iter/stats/iterations/num_iter"] == 3
