"""Small states that stay in buffers: they are reused, and what users and other nets see of them never changes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.program.buffers import feeds
from caffe2_backend.runtime.program.buffers.pool import BufferPool
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

FEEDS = {"w": np.zeros(6, np.float32), "m": np.ones(6, np.float32), "x": np.arange(6, dtype=np.float32)}
STEP = [
    operator("Copy", ["w"], ["old"]),
    operator("Add", ["w", "m"], ["w"]),
    operator("Mul", ["x", "m"], ["y"]),
    operator("Reshape", ["m"], ["view", "shape"], shape=[2, 3]),
    operator("SumElements", ["w"], ["sum"]),
]


def trained(ops: list[OperatorDef] = STEP, steps: int = 4, **feeds: Any) -> Workspace:
    workspace = Workspace()
    for name, value in {**FEEDS, **feeds}.items():
        workspace.feed(name, value)
    workspace.create_net(NetDef(name="step", op=ops))
    workspace.run_net("step", steps)
    return workspace


def fetch(workspace: Workspace, blob: str = "w") -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    value = workspace.fetch(blob)
    assert isinstance(value, np.ndarray)
    return value


def states(workspace: Workspace) -> BufferPool:
    program: Any = workspace._nets["step"].stages[0].program
    (variant,) = program._variants.values()
    assert isinstance(variant.pool, BufferPool)
    return variant.pool


def address(workspace: Workspace, blob: str = "w") -> int:
    value = workspace._store.blobs[blob]
    assert isinstance(value, np.ndarray)
    return value.ctypes.data


def test_steps_reuse_buffers() -> None:
    workspace = trained()
    addresses = set()
    for _ in range(9):
        workspace.run_net("step")
        addresses.add(address(workspace))
    assert len(addresses) <= 3
    assert len(states(workspace)._sets) <= 3
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 13))
    assert fetch(workspace, "sum") == 78


def test_fed_and_fetched_arrays_stay() -> None:
    workspace = trained()
    fetched = fetch(workspace)
    fed, x = np.full(6, 100, np.float32), np.full(6, 5, np.float32)
    workspace.feed("w", fed)
    workspace.feed("x", x)
    workspace.run_net("step", 5)
    np.testing.assert_array_equal(fetched, np.full(6, 4))
    np.testing.assert_array_equal(fed, np.full(6, 100))
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 105))
    np.testing.assert_array_equal(fetch(workspace, "y"), x)
    fetch(workspace)[:] = -1
    workspace.run_net("step")
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 106))


def test_values_that_others_hold_stay() -> None:
    """Hold more values than there are sets: runs go on without buffers, and with them when values are released."""
    workspace = trained()
    held = []
    for i in range(8):
        workspace.run_net("step")
        held.append((workspace._store.blobs["w"], i + 5))
    for value, expected in held:
        np.testing.assert_array_equal(value, np.full(6, expected))  # type: ignore[arg-type]  # a value of a store
    held.clear()
    del value
    workspace.run_net("step", 6)
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 18))


def test_results_stay_until_they_are_written() -> None:
    """Between the end of a step and the writing of its results, another workspace's thread may run the net."""
    workspace = trained()
    other = {name: array + 10 for name, array in FEEDS.items()}
    first = states(workspace).run(FEEDS)
    assert first is not None
    for _ in range(4):
        states(workspace).run(other)
    np.testing.assert_array_equal(first[0]["w"], np.ones(6))


def test_copies_and_views_of_states_stay() -> None:
    workspace = trained([*STEP, operator("Copy", ["view"], ["copy"]), operator("Scale", ["m"], ["m"], scale=2.0)])
    for blob in ("old", "view", "copy"):
        before = workspace._store.blobs[blob]
        expected = fetch(workspace, blob)
        workspace.run_net("step", 5)
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(before, expected)


def test_a_set_is_in_use_while_any_of_its_arrays_is() -> None:
    workspace = trained()
    workspace.run_net("step", 5)
    pool = states(workspace)
    idle = [i for i, each in enumerate(pool._sets) if each.is_free()]
    assert idle
    for array in pool._sets[idle[0]].arrays.values():
        assert not pool._sets[idle[0]].is_free(), array
    del array
    assert pool._sets[idle[0]].is_free()


def test_deferred_blobs_are_those_of_their_step() -> None:
    net = [*STEP, operator("Negative", ["w"], ["n"]), operator("Negative", ["n"], ["n2"])]
    workspace = trained(net)
    workspace.run_operator_once(operator("Copy", ["w"], ["saved"]))
    workspace.create_net(NetDef(name="read", op=[operator("Negative", ["w"], ["u"]), operator("Exp", ["u"], ["e"])]))
    workspace.run_net("read")
    workspace.run_net("step", 3)
    np.testing.assert_array_equal(fetch(workspace, "n"), -fetch(workspace))
    np.testing.assert_array_equal(fetch(workspace, "u"), -fetch(workspace, "saved"))
    workspace.run_net("step", 3)
    np.testing.assert_array_equal(fetch(workspace, "n"), np.full(6, -10))


def test_inputs_of_another_size_and_removed_blobs() -> None:
    workspace = trained()
    for size in (3, 6, 6, 1, 6):
        workspace.feed("w", np.zeros(size, np.float32))
        workspace.feed("m", np.ones(size, np.float32))
        workspace.feed("x", np.arange(size, dtype=np.float32))
        if size % 6 == 0:
            workspace.run_net("step", 3)
            np.testing.assert_array_equal(fetch(workspace), np.full(size, 3))
            np.testing.assert_array_equal(fetch(workspace, "y"), np.arange(size))
    workspace.remove_blob("w")
    with pytest.raises(RunError, match="'w'"):
        workspace.run_net("step")


@pytest.mark.parametrize("limit", [0, 10, 1 << 16])
def test_feeds_of_other_sizes(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "COPIED", limit)
    net = [operator("Add", ["w", "m"], ["w"]), operator("Negative", ["x"], ["y"])]
    workspace = trained(net)
    for size in (2, 7, 0, 7):
        x = np.arange(size, dtype=np.float32)
        workspace.feed("x", x)
        workspace.run_net("step", 2)
        np.testing.assert_array_equal(fetch(workspace, "y"), -x)
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 12))
    assert states(workspace)._sets


def test_a_state_that_another_net_overwrites() -> None:
    workspace = trained()
    workspace.create_net(NetDef(name="other", op=[operator("Scale", ["w"], ["w"], scale=2.0)]))
    for _ in range(4):
        workspace.run_net("step")
        workspace.run_net("other")
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 4 * 16 + 2 + 4 + 8 + 16))


def test_a_run_that_fails_keeps_what_ran_before_the_failure() -> None:
    net = [operator("Add", ["w", "m"], ["w"]), operator("Gather", ["x", "i"], ["g"])]
    workspace = trained(net, i=np.array([0, 1]))
    workspace.feed("i", np.array([99, 1]))
    for _ in range(3):
        with pytest.raises(RunError):
            workspace.run_net("step")
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 4 + 3))
    workspace.feed("i", np.array([2, 1]))
    workspace.run_net("step", 2)
    np.testing.assert_array_equal(fetch(workspace), np.full(6, 7 + 2))
    np.testing.assert_array_equal(fetch(workspace, "g"), [2, 1])


def test_threads_see_whole_steps() -> None:
    net = [operator("Add", ["w", "m"], ["w"]), operator("Add", ["v", "m"], ["v"])]
    workspace = trained(net, v=np.zeros(6, np.float32))
    workspace.create_net(
        NetDef(name="read", op=[operator("Sub", ["w", "v"], ["difference"])], external_output=["difference"])
    )
    failures: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            workspace.run_net("read")
            if fetch(workspace, "difference").any() or np.unique(fetch(workspace)).size != 1:
                failures.append("a step was seen in part")

    def train() -> None:
        for _ in range(300):
            workspace.run_net("step")

    reader, trainers = threading.Thread(target=read), [threading.Thread(target=train) for _ in range(2)]
    for thread in (reader, *trainers):
        thread.start()
    for thread in trainers:
        thread.join()
    done.set()
    reader.join()
    assert not failures
    assert 304 <= fetch(workspace)[0] <= 604
