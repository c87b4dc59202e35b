"""BlobsQueue: what real Caffe2 1.9.1 did with the same operators."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime import NoBlobError
from caffe2_bridge.diagnostics import RunError


def run(workspace: Workspace, op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> None:
    workspace.run_operator_once(operator(op_type, inputs, outputs, **args))


def enqueue(workspace: Workspace, *values: Any, queue: str = "q") -> None:
    names = [f"in{i}" for i in range(len(values))]
    for name, value in zip(names, values, strict=True):
        workspace.feed(name, value)
    run(workspace, "EnqueueBlobs", [queue, *names], names)


def fetched(workspace: Workspace, *names: str) -> list[Any]:
    values = [workspace.fetch(name) for name in names]
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


def test_records_leave_in_order_and_swap_with_the_slots() -> None:
    workspace = Workspace()
    run(workspace, "CreateBlobsQueue", [], ["q"], capacity=2, num_blobs=2)
    for k in range(2):
        enqueue(workspace, np.arange(2.0 + k), np.array([7 + k]))
        assert workspace.has_blob("in0")
        with pytest.raises(NoBlobError, match="does not have a value yet"):
            workspace.fetch("in0")
    run(workspace, "DequeueBlobs", ["q"], ["x", "y"])
    assert fetched(workspace, "x", "y") == [[0, 1], [7]]
    enqueue(workspace, np.arange(4.0), np.array([9]))
    run(workspace, "DequeueBlobs", ["q"], ["x", "y"])
    assert fetched(workspace, "x", "y") == [[0, 1, 2], [8]]
    run(workspace, "CloseBlobsQueue", ["q"], [])
    run(workspace, "DequeueBlobs", ["q"], ["x", "y"])
    assert fetched(workspace, "x", "y") == [[0, 1, 2, 3], [9]]
    with pytest.raises(RunError, match=r"DequeueBlobs: queue 'q' is closed"):
        run(workspace, "DequeueBlobs", ["q"], ["x", "y"])
    enqueue(workspace, np.arange(4.0), np.array([9]))  # a closed queue with room can be written
    assert fetched(workspace, "in0") == [[0, 1]]  # what the slot got when its record was read


def test_safe_operators_output_whether_the_queue_is_closed() -> None:
    workspace = Workspace()
    run(workspace, "CreateBlobsQueue", [], ["q"], capacity=1)
    workspace.feed("in", "text")
    run(workspace, "SafeEnqueueBlobs", ["q", "in"], ["in", "closed"])
    assert fetched(workspace, "closed") == [False]
    run(workspace, "CloseBlobsQueue", ["q"], [])
    workspace.feed("in", 1)
    run(workspace, "SafeEnqueueBlobs", ["q", "in"], ["in", "closed"])
    assert fetched(workspace, "closed", "in") == [True, 1]
    run(workspace, "SafeDequeueBlobs", ["q"], ["out", "closed"])
    assert fetched(workspace, "closed", "out") == [False, b"text"]
    run(workspace, "SafeDequeueBlobs", ["q"], ["out", "closed"])
    assert fetched(workspace, "closed", "out") == [True, b"text"]


def test_rows_of_several_records() -> None:
    workspace = Workspace()
    run(workspace, "CreateBlobsQueue", [], ["q"], capacity=5, num_blobs=2)
    for k in range(3):
        enqueue(workspace, np.arange(k + 1.0).reshape(-1, 1) + 10 * k, np.array([f"s{k}"] * (k + 1)))
    read = operator("SafeDequeueBlobs", ["q"], ["x", "y", "closed"], num_records=2)
    workspace.run_operator_once(read)
    assert fetched(workspace, "x", "y", "closed") == [[[0], [10], [11]], [b"s0", b"s1", b"s1"], False]
    closing = threading.Timer(0.2, run, [workspace, "CloseBlobsQueue", ["q"], []])
    closing.start()
    workspace.run_operator_once(read)  # one record is left, and nobody writes another one
    closing.join()
    assert fetched(workspace, "x", "y", "closed") == [[[20], [21], [22]], [b"s2", b"s2", b"s2"], False]
    workspace.run_operator_once(read)
    assert fetched(workspace, "x", "closed") == [[[20], [21], [22]], True]


def test_rows_must_fit_together() -> None:
    workspace = Workspace()
    read = operator("SafeDequeueBlobs", ["q"], ["x", "closed"], num_records=2)
    for values in ([np.ones((1, 2)), np.ones((1, 3))], [np.ones(1), np.ones(1, np.int32)], [np.array(1), np.array(2)]):
        run(workspace, "CreateBlobsQueue", [], ["q"], capacity=2)
        for value in values:
            enqueue(workspace, value)
        with pytest.raises(RunError, match=r"records of 'x' differ|blob 'x' must be a tensor with a first dim"):
            workspace.run_operator_once(read)


def test_a_reader_waits_for_a_time_or_until_the_queue_is_closed() -> None:
    workspace = Workspace()
    run(workspace, "CreateBlobsQueue", [], ["q"])
    with pytest.raises(RunError, match=r"queue 'q' is closed, or was empty for 0.05 seconds"):
        run(workspace, "DequeueBlobs", ["q"], ["x"], timeout_secs=0.05)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(run, workspace, "DequeueBlobs", ["q"], ["x"])
        enqueue(workspace, np.array([3]))
        reading.result()
        assert fetched(workspace, "x") == [[3]]
        reading = pool.submit(run, workspace, "DequeueBlobs", ["q"], ["x"])
        run(workspace, "CloseBlobsQueue", ["q"], [])
        with pytest.raises(RunError, match="queue 'q' is closed"):
            reading.result()


def test_a_writer_waits_for_room() -> None:
    workspace = Workspace()
    run(workspace, "CreateBlobsQueue", [], ["q"], capacity=2)
    out = []
    with ThreadPoolExecutor(1) as pool:
        writing = [pool.submit(enqueue, workspace, np.array([k])) for k in range(20)]
        for _ in range(20):
            run(workspace, "DequeueBlobs", ["q"], ["x"])
            out += fetched(workspace, "x")[0]
        for done in writing:
            done.result()
    assert out == list(range(20))


def test_nothing_is_lost_between_many_threads() -> None:
    workspace = Workspace()
    run(workspace, "CreateBlobsQueue", [], ["q"], capacity=3)

    def write(writer: int) -> None:
        for k in range(25):
            workspace.feed(f"w{writer}", np.array([100 * writer + k]))
            run(workspace, "EnqueueBlobs", ["q", f"w{writer}"], [f"w{writer}"])

    def read(reader: int) -> list[int]:
        found = []
        while True:
            run(workspace, "SafeDequeueBlobs", ["q"], [f"r{reader}", f"closed{reader}"])
            if workspace.fetch(f"closed{reader}"):
                return found
            found += fetched(workspace, f"r{reader}")[0]

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(read, i) for i in range(3)]
        for done in [pool.submit(write, i) for i in range(3)]:
            done.result()
        run(workspace, "CloseBlobsQueue", ["q"], [])
        found = sorted(item for reader in readers for item in reader.result())
    assert found == sorted(100 * writer + k for writer in range(3) for k in range(25))


def test_one_of_several_queues_is_drawn() -> None:
    workspace = Workspace()
    for queue, value in (("q0", 5.0), ("q1", 6.0)):
        run(workspace, "CreateBlobsQueue", [], [queue], capacity=4)
        for _ in range(4):
            enqueue(workspace, np.array([value]), queue=queue)
    for weights, value in (([0.0, 2.0], 6), ([1.0, 0.0], 5)):
        run(workspace, "WeightedSampleDequeueBlobs", ["q0", "q1"], ["x", "closed"], weights=weights)
        assert fetched(workspace, "x", "closed") == [[value], False]
    with pytest.raises(RunError, match="2 queues, and 1 weights"):
        run(workspace, "WeightedSampleDequeueBlobs", ["q0", "q1"], ["x", "closed"], weights=[1.0])


def test_refused_queues() -> None:
    workspace = Workspace()
    with pytest.raises(RunError, match="field_names has 1 names, and the queue 2 blobs"):
        run(workspace, "CreateBlobsQueue", [], ["q"], num_blobs=2, field_names=["a"])
    with pytest.raises(RunError, match="capacity and num_blobs must be positive"):
        run(workspace, "CreateBlobsQueue", [], ["q"], capacity=0)
    run(workspace, "CreateBlobsQueue", [], ["q"], num_blobs=2)
    with pytest.raises(RunError, match="queue 'q' exists already"):
        run(workspace, "CreateBlobsQueue", [], ["q"], enforce_unique_name=1)
    with pytest.raises(RunError, match="queue 'q' has 2 blobs, and the operator 1"):
        run(workspace, "DequeueBlobs", ["q"], ["x"])
    workspace.feed("a", 1)
    with pytest.raises(RunError, match="must be enqueued in place"):
        run(workspace, "EnqueueBlobs", ["q", "a", "a"], ["x", "y"])


def test_statistics_of_a_queue() -> None:
    workspace = Workspace()
    run(workspace, "CreateBlobsQueue", [], ["counted"], capacity=2, num_blobs=2, field_names=["a", "b"])
    run(workspace, "StatRegistryExport", [], ["keys", "values", "times"])  # from 0 on
    for _ in range(2):
        enqueue(workspace, np.arange(2.0), np.array(["abc"]), queue="counted")
    run(workspace, "DequeueBlobs", ["counted"], ["x", "y"])
    run(workspace, "StatRegistryExport", [], ["keys", "values", "times"])
    keys, values = fetched(workspace, "keys", "values")
    found = {key.decode(): value for key, value in zip(keys, values, strict=True)}
    own = {key.removeprefix("counted/"): value for key, value in found.items() if key.startswith("counted/")}
    assert {key: value for key, value in own.items() if not key.endswith("/sum")} == {
        "queue_balance": 1, "queue_dequeued_records": 1, "queue_dequeued_bytes": 19, "queue_dequeued_bytes/a": 16,
        "queue_dequeued_bytes/b": 3, "read_time_ns/count": 1, "write_time_ns/count": 2,
    }  # fmt: skip
