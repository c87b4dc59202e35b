"""Nets that run in several Python threads on one workspace: nothing is lost, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime import DeviceTensor
from caffe2_backend.runtime.placement.automatic import PlacedProgram
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

THREADS = 8
RUNS = 250
LARGE = np.zeros((100, 60), np.float32)  # of which some rows are updated in place


def workspace_of_counters() -> Workspace:
    workspace = Workspace(options=SessionOptions(threads=1))
    workspace.run_operator_once(operator("CreateMutex", [], ["mutex"]))
    for name, value in (
        ("iter", np.zeros(1, np.int64)), ("w", np.zeros(1, np.float32)), ("one", np.ones(1, np.float32)),
        ("table", LARGE), ("row", np.zeros(1, np.int64)), ("ones", np.ones((1, 60), np.float32)),
        ("number", np.zeros(1, np.int32)), ("step", np.ones(1, np.int32)),
    ):  # fmt: skip
        workspace.feed(name, value)
    return workspace


def create(workspace: Workspace, name: str, ops: Sequence[OperatorDef]) -> str:
    outputs = dict.fromkeys(output for op in ops for output in op.output)
    return workspace.create_net(NetDef(name=name, op=ops, external_output=outputs))


def in_threads(*functions: Callable[[], object]) -> None:
    """Call functions in threads, until all have ended. Raises the first error of one of them."""
    errors: list[BaseException] = []

    def call(function: Callable[[], object]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=call, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def repeated(function: Callable[..., object], *args: Any, times: int = RUNS, **options: Any) -> Callable[[], None]:
    def call() -> None:
        for _ in range(times):
            function(*args, **options)

    return call


UPDATES = {
    "AtomicIter": (operator("AtomicIter", ["mutex", "iter"], ["iter"]), "iter"),
    "WeightedSum": (operator("WeightedSum", ["w", "one", "one", "one"], ["w"]), "w"),
    "ScatterWeightedSum": (
        operator("ScatterWeightedSum", ["table", "one", "row", "ones", "one"], ["table"]), "table"
    ),
    "Iter": (operator("Iter", [], ["iter"]), "iter"),
    "Accumulate": (operator("Accumulate", ["one"], ["w"]), "w"),
    "Append": (operator("Append", ["row", "row_end"], ["row"]), "row"),
    "AtomicFetchAdd": (operator("AtomicFetchAdd", ["mutex", "number", "step"], ["number", "before"]), "number"),
}  # fmt: skip


def count(workspace: Workspace, blob: str) -> int:
    value = workspace.fetch(blob)
    assert isinstance(value, np.ndarray)
    return len(value) - 1 if blob == "row" else int(value.max())


@pytest.mark.parametrize("own_nets", [True, False])
@pytest.mark.parametrize("kind", UPDATES)
def test_no_update_is_lost(kind: str, own_nets: bool) -> None:
    workspace = workspace_of_counters()
    workspace.feed("row_end", np.zeros(1, np.int64))
    op, blob = UPDATES[kind]
    names = [create(workspace, f"net{i}", [op]) for i in range(THREADS if own_nets else 1)]
    in_threads(*(repeated(workspace.run_net, names[i % len(names)]) for i in range(THREADS)))
    assert count(workspace, blob) == THREADS * RUNS


@pytest.mark.parametrize("kind", ["AtomicIter", "WeightedSum"])
def test_no_update_is_lost_between_all_ways_to_run(kind: str) -> None:
    workspace = workspace_of_counters()
    op, blob = UPDATES[kind]
    alone = create(workspace, "alone", [op])
    after_print = create(workspace, "after_print", [operator("CountUp", ["counter"], ["counted"]), op])
    workspace.run_operator_once(operator("CreateCounter", [], ["counter"], init_count=0))
    child = workspace.child()
    create(child, "inside", [op])
    in_threads(
        repeated(workspace.run_net, alone, times=20),
        repeated(workspace.run_net, alone, 20, times=10),
        repeated(workspace.run_net, after_print, times=20),
        repeated(workspace.run_net, alone, every_blob=True, times=20),
        repeated(workspace.run_net, after_print, every_blob=True, times=20),
        repeated(workspace.run_operator_once, op, times=20),
        repeated(workspace.run_net_once, NetDef(name="once", op=[op], external_output=[blob]), times=20),
        repeated(child.run_net, "inside", times=20),
    )
    assert count(workspace, blob) == 20 + 200 + 6 * 20


@pytest.mark.parametrize("own", [True, False])
def test_a_feed_during_a_run_is_kept(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_of_counters()
    child = workspace if own else workspace.child()
    ops = [operator("WeightedSum", ["w", "one", "one", "one"], ["w"]), operator("Copy", ["w"], ["copy"])]
    create(child, "net", ops)
    run = Program.run

    def feed_before(self: Program, *args: Any, **options: Any) -> Any:
        workspace.feed("w", np.full(1, 10, np.float32))
        return run(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Program, "run", feed_before)
        child.run_net("net")
    assert workspace.fetch("w") == 10
    assert child.fetch("copy") == 1  # of the run, which began before
    child.run_net("net")
    assert workspace.fetch("w") == 11


def test_a_fetch_during_a_run_on_a_device_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace("cuda:0", options=SessionOptions(threads=1, stand_in={"cuda:0": "cpu"}))
    for name in ("w", "one"):
        workspace.feed(name, np.ones(1, np.float32), "cuda:0")
    create(workspace, "net", [operator("WeightedSum", ["w", "one", "one", "one"], ["w"])])
    run = PlacedProgram.run

    def fetch_before(self: PlacedProgram, *args: Any, **options: Any) -> Any:
        assert isinstance(workspace.fetch("w", on_device=True), DeviceTensor)
        return run(self, *args, **options)

    monkeypatch.setattr(PlacedProgram, "run", fetch_before)
    repeated(workspace.run_net, "net", times=3)()
    assert workspace.fetch("w") == 4


def test_elements_are_handed_out_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(options=SessionOptions(threads=1))
    ones = [operator("ConstantFill", [], [name], shape=[1], value=1.0) for name in ("w", "one")]
    workspace.run_net_once(NetDef(name="init", op=ones))  # constants, of which a caller gets a copy to change
    create(workspace, "net", [operator("WeightedSum", ["w", "one", "one", "one"], ["w"])])
    run, threads = Program.run, []

    def ask_before(self: Program, *args: Any, **options: Any) -> Any:
        threads.append(threading.Thread(target=workspace.host_array, args=("w",)))
        threads[-1].start()
        threads[-1].join(0.1)
        return run(self, *args, **options)

    monkeypatch.setattr(Program, "run", ask_before)
    workspace.run_net("net")
    threads[-1].join()
    assert workspace.fetch("w") == 2


def test_a_run_that_writes_without_reading_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_of_counters()
    create(workspace, "count", [UPDATES["AtomicIter"][0]])
    reset = NetDef(name="reset", op=[operator("GivenTensorInt64Fill", [], ["iter"], shape=[1], values=[0])])
    repeated(workspace.run_net, "count", times=3)()
    run = Program.run

    def reset_before(self: Program, *args: Any, **options: Any) -> Any:
        workspace.run_net_once(reset)
        return run(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Program, "run", reset_before)
        workspace.run_net("count")
    assert workspace.fetch("iter") == 0


def test_a_run_that_waits_for_another_thread_holds_nothing() -> None:
    workspace = workspace_of_counters()
    workspace.run_operator_once(operator("CreateBlobsQueue", [], ["queue"], num_blobs=1, capacity=1))
    update = UPDATES["WeightedSum"][0]
    create(workspace, "take", [update, operator("DequeueBlobs", ["queue"], ["taken"]), update])
    for i in range(3):  # with values of their own: the queue takes what is in the blob
        enqueue = [
            operator("Copy", ["one"], [f"item{i}"]),
            operator("EnqueueBlobs", ["queue", f"item{i}"], [f"item{i}"]),
        ]
        create(workspace, f"give{i}", [update, *enqueue, update])
    in_threads(
        *(repeated(workspace.run_net, "take", times=30) for _ in range(2)),
        *(repeated(workspace.run_net, f"give{i}", times=20) for i in range(3)),
    )
    assert workspace.fetch("w") == 2 * (2 * 30 + 3 * 20)


def test_runs_without_states_do_not_wait_for_each_other() -> None:
    workspace = workspace_of_counters()
    create(workspace, "net", [operator("Relu", ["w"], ["y"])])
    create(workspace, "other", [operator("WeightedSum", ["w", "one", "one", "one"], ["w"])])
    workspace.run_net("other")
    with workspace._store.updating(("w",)):  # as a run of "other" does
        in_threads(repeated(workspace.run_net, "net", times=5))
    assert workspace.fetch("y") == 1


def test_nets_with_common_states_in_any_order() -> None:
    workspace = workspace_of_counters()
    names = ("a", "b", "c")
    for name in names:
        workspace.feed(name, np.zeros(1, np.float32))
    groups = [("a", "b"), ("c", "b"), ("b", "a", "c"), ("c", "a"), ("c",)]
    for i, group in enumerate(groups):
        create(workspace, f"net{i}", [operator("WeightedSum", [n, "one", "one", "one"], [n]) for n in group])
    in_threads(*(repeated(workspace.run_net, f"net{i}", times=100) for i in range(len(groups))))
    assert [count(workspace, name) for name in names] == [300, 300, 400]


def test_each_run_of_a_net_that_runs_once_starts_anew() -> None:
    """Run a net twice at one time, whose first operator keeps what it found in its first run."""
    workspace = Workspace(options=SessionOptions(threads=1))
    workspace.run_operator_once(operator("CreateBlobsQueue", [], ["queue"], num_blobs=1, capacity=2))
    workspace.run_operator_once(operator("CreateTensorVector", [], ["sample"]))
    workspace.feed("x", np.ones(1, np.float32))
    ops = [
        operator("CollectTensor", ["sample", "x"], ["sample"], num_to_collect=1),  # keeps the first of its own runs
        operator("DequeueBlobs", ["queue"], ["taken"]),
    ]
    net = NetDef(name="once", op=ops)
    waiting = [threading.Thread(target=workspace.run_net_once, args=(net,), daemon=True) for _ in range(2)]
    for i, thread in enumerate(waiting):
        workspace.feed("x", np.full(1, i, np.float32))
        thread.start()
        thread.join(0.5)  # it waits for the queue
    for i in range(2):
        workspace.feed(f"item{i}", np.ones(1, np.float32))
        workspace.run_operator_once(operator("EnqueueBlobs", ["queue", f"item{i}"], [f"item{i}"]))
    for thread in waiting:
        thread.join(60)
        assert not thread.is_alive()
    workspace.run_operator_once(operator("ConcatTensorVector", ["sample"], ["all"]))
    assert workspace.fetch("all").tolist() == [1]  # the sample of the second run, which replaced that of the first
