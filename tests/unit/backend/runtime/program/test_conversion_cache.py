"""Nets that differ in names only share a conversion and a session, and keep values and errors apart."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.program import compiler
from caffe2_backend.runtime.program.conversion_cache import CONVERSIONS
from caffe2_backend.runtime.program.shared_sessions import release_sessions
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

ONES = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    CONVERSIONS.clear()
    release_sessions()
    yield
    CONVERSIONS.clear()
    release_sessions()


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nets that were converted."""
    names: list[str] = []
    real = compiler.lower

    def lower(net: NetDef, *args: Any) -> Any:
        names.append(net.name)
        return real(net, *args)

    monkeypatch.setattr(compiler, "lower", lower)
    return names


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices of the sessions that were made."""
    made: list[str] = []
    real = Session.__init__

    def init(self: Session, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        made.append(self.device)

    monkeypatch.setattr(Session, "__init__", init)
    return made


def dense(prefix: str, name: str | None = None, **arguments: Any) -> NetDef:
    """Return a net whose blobs have a prefix."""
    ops = [
        operator("FC", [prefix + "x", prefix + "w", prefix + "b"], [prefix + "h"], **arguments),
        operator("Relu", [prefix + "h"], [prefix + "y"]),
    ]
    return NetDef(name=name or prefix + "net", op=ops)


def run(net: NetDef, prefix: str, factor: float, workspace: Workspace | None = None) -> Any:
    workspace = workspace or Workspace()
    workspace.feed(prefix + "x", np.full((2, 3), factor, np.float32))
    workspace.feed(prefix + "w", np.ones((4, 3), np.float32))
    workspace.feed(prefix + "b", np.ones(4, np.float32))
    workspace.run_net_once(net)
    return workspace.fetch(prefix + "y")


def test_nets_with_other_names_share_conversion_and_session(lowered: list[str], sessions: list[str]) -> None:
    for i, prefix in enumerate(("a/", "b_", "")):
        np.testing.assert_array_equal(run(dense(prefix, "net"), prefix, i), np.full((2, 4), 3 * i + 1, np.float32))
    assert lowered == ["net"]
    assert len(sessions) == 1


def test_crossed_names_are_told_apart(lowered: list[str]) -> None:
    """Run a second net with the names of the first in other positions."""
    workspace = Workspace()
    workspace.feed("a", np.float32([5, 6]))
    workspace.feed("b", np.float32([1, 2]))
    workspace.run_net_once(NetDef(name="first", op=[operator("Sub", ["a", "b"], ["c"])]))
    np.testing.assert_array_equal(workspace.fetch("c"), [4, 4])
    workspace.run_net_once(NetDef(name="second", op=[operator("Sub", ["b", "a"], ["d"])]))
    np.testing.assert_array_equal(workspace.fetch("d"), [-4, -4])
    workspace.run_net_once(NetDef(name="third", op=[operator("Sub", ["d", "c"], ["b"])]))
    np.testing.assert_array_equal(workspace.fetch("b"), [-8, -8])
    assert lowered == ["first"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (dense("", axis=1), dense("", axis_w=1)),
        (NetDef(op=[operator("Add", ["x", "w"], ["y"])]), NetDef(op=[operator("Add", ["x", "x"], ["y"])])),
        (NetDef(op=[operator("Add", ["x", "w"], ["y"])]), NetDef(op=[operator("Add", ["x", "w"], ["x"])])),
    ],
    ids=["arguments", "twice", "in place"],
)
def test_other_structures_share_nothing(lowered: list[str], first: NetDef, second: NetDef) -> None:
    for net in (first, second):
        workspace = Workspace()
        for name in ("x", "w"):
            workspace.feed(name, np.ones((4, 4), np.float32))
        workspace.feed("b", np.ones(4, np.float32))
        workspace.run_net_once(net)
    assert len(lowered) == 2


def test_other_types_ranks_and_constants(lowered: list[str]) -> None:
    add = NetDef(name="add", op=[operator("Add", ["x", "c"], ["y"])])
    results = []
    for value in (ONES, ONES.astype(np.float64), ONES[None]):
        workspace = Workspace()
        workspace.feed("x", value)
        workspace.feed("c", value)
        workspace.run_net_once(add)
        results.append(np.asarray(workspace.fetch("y")))
    assert [(array.dtype, array.ndim) for array in results] == [(np.float32, 1), (np.float64, 1), (np.float32, 2)]
    for value in (2.0, 3.0, 2.0):  # constants of the converted net
        workspace = Workspace()
        workspace.feed("x", ONES)
        workspace.run_net_once(NetDef(op=[operator("GivenTensorFill", [], ["c"], shape=[3], values=[value] * 3)]))
        workspace.run_net_once(add)
        np.testing.assert_array_equal(workspace.fetch("y"), ONES + value)
    assert len(lowered) == 5


def update(prefix: str) -> NetDef:
    """Return a step with a state."""
    ops = [operator("Add", [prefix + "w", prefix + "x"], [prefix + "w"]), operator("Copy", [prefix + "w"], [prefix])]
    return NetDef(name=prefix, op=ops)


def test_states_are_kept_apart(lowered: list[str]) -> None:
    workspace = Workspace()
    for i, prefix in enumerate(("a", "b", "c")):
        workspace.feed(prefix + "w", ONES)
        workspace.feed(prefix + "x", ONES * i)
        workspace.create_net(update(prefix))
    for _ in range(6):
        for prefix in ("a", "b", "c"):
            workspace.run_net(prefix)
    workspace.run_net("b", 10)
    for prefix, expected in (("a", 1), ("b", 17), ("c", 13)):
        np.testing.assert_array_equal(workspace.fetch(prefix + "w"), ONES * expected)
        np.testing.assert_array_equal(workspace.fetch(prefix), ONES * expected)
    assert lowered == ["a"]


def test_threads_convert_once_and_share_no_buffers(lowered: list[str]) -> None:
    parent = Workspace()
    results: dict[int, Any] = {}

    def train(i: int) -> None:
        workspace = parent.child() if i % 2 else Workspace()
        prefix = f"p{i}"
        workspace.feed(prefix + "w", ONES * 0)
        workspace.feed(prefix + "x", ONES * i)
        workspace.create_net(update(prefix))
        for _ in range(50):
            workspace.run_net(prefix)
        results[i] = workspace.fetch(prefix)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        np.testing.assert_array_equal(results[i], ONES * 50 * i)
    assert len(lowered) == 1


def test_large_states_are_updated_in_place_under_other_names() -> None:
    for prefix in ("a", "b"):
        workspace = Workspace()
        workspace.feed(prefix + "table", np.zeros((1000, 16), np.float32))
        workspace.feed(prefix + "one", np.ones(1, np.float32))
        workspace.feed(prefix + "rows", np.int64([1, 3]))
        workspace.feed(prefix + "values", np.ones((2, 16), np.float32))
        names = ["table", "one", "rows", "values", "one"]
        names = [prefix + name for name in names]
        scatter = operator("ScatterWeightedSum", [names[0], names[1], names[2], names[3], names[4]], [names[0]])
        workspace.create_net(NetDef(name="net", op=[scatter]))
        for _ in range(5):
            workspace.run_net("net")
        table = np.asarray(workspace.fetch(prefix + "table"))
        np.testing.assert_array_equal(table[[0, 1, 3], 0], [0, 5, 5])


def test_random_nets_share_nothing(lowered: list[str]) -> None:
    def draw(prefix: str) -> Any:
        op = operator("Dropout", [prefix + "x"], [prefix + "y", prefix + "mask"], ratio=0.5, is_test=0)
        op.device_option.random_seed = 7
        workspace = Workspace()
        workspace.feed(prefix + "x", np.ones(1000, np.float32))
        workspace.run_net_once(NetDef(name=prefix, op=[op]))
        return workspace.fetch(prefix + "y")

    np.testing.assert_array_equal(draw("a"), draw("b"))
    assert set(lowered) == {"a", "b"}


def test_errors_have_the_names_of_the_net(lowered: list[str]) -> None:
    def multiply(prefix: str, rows: int) -> None:
        workspace = Workspace()
        workspace.feed(prefix + "left", np.ones((2, 3), np.float32))
        workspace.feed(prefix + "right", np.ones((rows, 4), np.float32))
        workspace.run_net_once(
            NetDef(name=prefix, op=[operator("MatMul", [f"{prefix}left", f"{prefix}right"], [prefix])])
        )

    multiply("scope/first", 3)
    with pytest.raises(RunError, match="other") as caught:
        multiply("other", 5)
    assert "first" not in str(caught.value)
    assert lowered == ["scope/first"]


def test_bodies_keep_their_names(lowered: list[str]) -> None:
    """Check that what bodies see under outer names is not renamed: only nets of the same names share."""

    def branch(prefix: str) -> NetDef:
        then_net = NetDef(op=[OperatorDef(type="Add", input=[f"{prefix}x", f"{prefix}x"], output=[f"{prefix}y"])])
        op = operator("If", [f"{prefix}c"], [f"{prefix}y"])
        op.arg.add(name="then_net", n=then_net)
        return NetDef(
            name="net", op=[operator("Copy", [f"{prefix}x"], [f"{prefix}y"]), op], external_output=[f"{prefix}y"]
        )

    for prefix in ("a", "b", "a"):
        workspace = Workspace()
        workspace.feed(f"{prefix}c", np.array(True))  # noqa: FBT003 - NumPy's argument
        workspace.feed(f"{prefix}x", ONES)
        workspace.run_net_once(branch(prefix))
        np.testing.assert_array_equal(workspace.fetch(f"{prefix}y"), ONES * 2)
    assert len(lowered) == 2


def test_sessions_that_are_not_small_end_with_their_workspaces(sessions: list[str]) -> None:
    for prefix in ("a", "b"):
        workspace = Workspace()
        workspace.feed(prefix, np.ones(1 << 19, np.float32))
        workspace.run_net_once(NetDef(op=[operator("Relu", [prefix], [prefix + "y"])]))
        del workspace
        gc.collect()
    assert len(sessions) == 2


def test_sizes_that_a_conversion_needs_are_asked_for_once(lowered: list[str]) -> None:
    """The conversion fails for want of sizes; that of another net of the structure is not tried without them."""
    for prefix in ("a", "b"):
        workspace = Workspace()
        workspace.feed(prefix, np.ones((2, 1), np.float32))
        squeeze = operator("ATen", [prefix], [prefix + "y"], operator="squeeze")
        workspace.run_net_once(NetDef(name=prefix, op=[squeeze]))
        np.testing.assert_array_equal(workspace.fetch(prefix + "y"), [1, 1])
    assert lowered == ["a", "a"]
