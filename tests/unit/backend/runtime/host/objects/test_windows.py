"""Windows of the last rows: what real Caffe2 1.9.1 left in the ring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def collect(workspace: Workspace, rows: Any, size: int, *more: str) -> tuple[list[Any], int]:
    workspace.feed("rows", rows)
    outputs = ["ring", "next", *more[1:]]
    op = operator("LastNWindowCollector", ["ring", "next", "rows", *more], outputs, num_to_collect=size)
    workspace.run_operator_once(op)
    position = np.asarray(workspace.fetch("next"))
    assert (position.dtype, position.shape) == (np.int32, ())
    return np.asarray(workspace.fetch("ring")).tolist(), int(position)


@pytest.fixture
def workspace() -> Workspace:
    made = Workspace()
    made.create_blob("ring")
    made.feed("next", np.int32(0))
    return made


def test_rows_go_around_the_ring(workspace: Workspace) -> None:
    expected = {1: [0, 1, 2], 3: [1, 2, 2, 0, 1, 2, 0], 6: [2, 0, 1, 2, 2, 0, 1]}
    for turn in range(1, 7):
        ring, position = collect(workspace, ROWS, 7)
        assert position == 3 * turn % 7
        if turn in expected:
            assert ring == ROWS[expected[turn]].tolist()


def test_more_rows_than_the_ring_has(workspace: Workspace) -> None:
    collect(workspace, ROWS[:1], 2)
    assert collect(workspace, ROWS, 2) == (ROWS[1:].tolist(), 0)
    assert collect(workspace, ROWS[:0], 2) == (ROWS[1:].tolist(), 0)
    assert collect(workspace, ROWS[:1], 2) == (ROWS[[0, 2]].tolist(), 1)


def test_rows_are_counted(workspace: Workspace) -> None:
    workspace.run_operator_once(operator("CreateMutex", [], ["mutex"]))
    workspace.feed("seen", np.array([0]))
    for turn in range(1, 4):
        collect(workspace, ROWS, 2, "mutex", "seen")
        assert np.asarray(workspace.fetch("seen")).tolist() == [3 * turn]


def test_texts_are_rows(workspace: Workspace) -> None:
    assert collect(workspace, np.array(["a", "b"]), 3) == ([b"a", b"b"], 2)


def test_refused_windows(workspace: Workspace) -> None:
    collect(workspace, ROWS, 4)
    with pytest.raises(RunError, match="must be equal in shape and type"):
        collect(workspace, np.ones((2, 3), np.float32), 4)
    with pytest.raises(RunError, match="num_to_collect must be positive"):
        collect(workspace, ROWS, 0)
    workspace.feed("next", np.int32(9))
    with pytest.raises(RunError, match="blob 'next' holds 9, which is not a position"):
        collect(workspace, ROWS, 4)
