"""RebatchingQueue: what real Caffe2 1.9.1 did with the same operators."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError


def run(workspace: Workspace, op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> None:
    workspace.run_operator_once(operator(op_type, inputs, outputs, **args))


def enqueue(workspace: Workspace, *values: Any, batch: bool = True) -> None:
    names = [f"in{i}" for i in range(len(values))]
    for name, value in zip(names, values, strict=True):
        workspace.feed(name, value)
    run(workspace, "EnqueueRebatchingQueue", ["q", *names], [], enqueue_batch=batch)


def dequeue(workspace: Workspace, count: int, *names: str) -> list[Any]:
    run(workspace, "DequeueRebatchingQueue", ["q"], list(names), num_elements=count)
    return [np.asarray(workspace.fetch(name)).tolist() for name in names]


def test_rows_are_batched_anew() -> None:
    workspace = Workspace()
    run(workspace, "CreateRebatchingQueue", [], ["q"], capacity=4, num_blobs=2)
    enqueue(workspace, np.arange(6.0).reshape(3, 2), np.array([7, 8, 9]))
    assert dequeue(workspace, 2, "x", "y") == [[[0, 1], [2, 3]], [7, 8]]
    assert dequeue(workspace, 1, "x", "y") == [[[4, 5]], [9]]
    for _ in range(2):
        enqueue(workspace, np.array([1.0, 2.0]), np.array(5), batch=False)
    assert dequeue(workspace, 2, "x", "y") == [[[1, 2], [1, 2]], [5, 5]]
    with pytest.raises(RunError, match="must have the same first dim"):
        enqueue(workspace, np.ones((3, 2)), np.array([7, 8]))
    with pytest.raises(RunError, match="queue 'q' has 2 blobs, and the operator 1"):
        dequeue(workspace, 1, "x")


def test_a_closed_queue_is_read_to_its_end() -> None:
    workspace = Workspace()
    run(workspace, "CreateRebatchingQueue", [], ["q"], capacity=4)
    enqueue(workspace, np.array(["a", "b", "c"]))
    closing = threading.Timer(0.2, run, [workspace, "CloseRebatchingQueue", ["q"], []])
    closing.start()
    assert dequeue(workspace, 5, "x") == [[b"a", b"b", b"c"]]
    closing.join()
    for fails in (lambda: dequeue(workspace, 5, "x"), lambda: enqueue(workspace, np.array(["a"]))):
        with pytest.raises(RunError, match="queue 'q' is closed"):
            fails()


def test_batches_larger_than_the_queue_go_through() -> None:
    workspace = Workspace()
    run(workspace, "CreateRebatchingQueue", [], ["q"], capacity=1)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(enqueue, workspace, np.arange(3))
        assert dequeue(workspace, 3, "x") == [[0, 1, 2]]
        writing.result()
        writing = pool.submit(enqueue, workspace, np.arange(3))
        run(workspace, "CloseRebatchingQueue", ["q"], [])
        with pytest.raises(RunError, match="queue 'q' is closed"):
            writing.result()


def test_elements_of_a_batch_have_one_shape() -> None:
    workspace = Workspace()
    run(workspace, "CreateRebatchingQueue", [], ["q"], capacity=4)
    for size in (2, 3):
        enqueue(workspace, np.ones(size), batch=False)
    with pytest.raises(RunError, match="the elements of 'x' differ"):
        dequeue(workspace, 2, "x")
    with pytest.raises(RunError, match="must be positive"):
        run(workspace, "CreateRebatchingQueue", [], ["q"], capacity=0)
