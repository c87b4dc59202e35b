"""Host operators in real Caffe2 and here: the same calls, with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.workspace.transcripts import Call, compare

pytestmark = pytest.mark.oracle


def run(op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> list[Call]:
    """Run an operator and fetch its outputs."""
    return [
        ("RunOperatorOnce", operator(op_type, inputs, outputs, **args)),
        *(("FetchBlob", name) for name in outputs),
    ]


def only_run(op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> list[Call]:
    """Run an operator that fails: what Caffe2 leaves in its outputs depends on its memory."""
    return run(op_type, inputs, outputs, **args)[:1]


def make(op_type: str, name: str, **args: Any) -> Call:
    """Make an object, which is not fetched."""
    return "RunOperatorOnce", operator(op_type, [], [name], **args)


def feed(**values: Any) -> list[Call]:
    return [("FeedBlob", name, value) for name, value in values.items()]


def enqueue(*values: Any) -> list[Call]:
    names = [f"in{i}" for i in range(len(values))]
    fed = feed(**dict(zip(names, values, strict=True)))
    return [*fed, ("RunOperatorOnce", operator("EnqueueBlobs", ["q", *names], names))]


COUNTERS = [
    make("CreateCounter", "c", init_count=2),
    *(call for _ in range(4) for call in run("CountDown", ["c"], ["x"]) + run("CheckCounterDone", ["c"], ["y"])),
    *run("CountUp", ["c"], ["x"]),
    *run("ResetCounter", ["c"], ["x"], init_count=5),
    *run("RetrieveCount", ["c"], ["x"]),
    ("SerializeBlob", "c"),
]
ATOMICS = [
    make("CreateMutex", "m"),
    *feed(a=np.array([3, 5], np.int32), b=np.array([4], np.int32)),
    *run("AtomicFetchAdd", ["m", "a", "b"], ["a", "p"]),
    *feed(a=np.array(3.0)),
    *run("AtomicFetchAdd", ["m", "a", "b"], ["a", "p"]),
    make("CreateAtomicBool", "f"),
    *run("CheckAtomicBool", ["f"], ["v"]),
    *feed(on=np.array([True])),
    *run("ConditionalSetAtomicBool", ["f", "on"], []),
    *run("CheckAtomicBool", ["f"], ["v"]),
    *only_run("CountUp", ["m"], ["x"]),
    *only_run("CountUp", ["on"], ["x"]),
]
QUEUES = [
    make("CreateBlobsQueue", "q", capacity=2, num_blobs=2),
    *enqueue(np.arange(2.0), np.array([7])),
    *enqueue(np.arange(3.0), np.array([b"a"], object)),
    *only_run("DequeueBlobs", ["q"], ["x"]),
    *run("DequeueBlobs", ["q"], ["x", "y"]),
    *run("SafeDequeueBlobs", ["q"], ["x", "y", "s"]),
    *run("CloseBlobsQueue", ["q"], []),
    *run("DequeueBlobs", ["q"], ["x", "y"]),
    *run("SafeDequeueBlobs", ["q"], ["x", "y", "s"]),
    *enqueue(np.arange(4.0), np.array([9])),
    *enqueue(np.arange(4.0), np.array([9])),
    ("FetchBlob", "in0"),
    *enqueue(np.arange(4.0), np.array([9])),
    ("FetchBlob", "in0"),
    make("CreateBlobsQueue", "q", capacity=3),
    *enqueue(np.ones((1, 2))),
    *enqueue(np.zeros((2, 2))),
    *run("CloseBlobsQueue", ["q"], []),
    *run("SafeDequeueBlobs", ["q"], ["x", "s"], num_records=5),
    *run("SafeDequeueBlobs", ["q"], ["x", "s"], num_records=5),
]
REBATCHING = [
    make("CreateRebatchingQueue", "q", capacity=4, num_blobs=2),
    *feed(a=np.arange(6.0).reshape(3, 2), b=np.array([7, 8, 9])),
    *run("EnqueueRebatchingQueue", ["q", "a", "b"], [], enqueue_batch=1),
    *run("DequeueRebatchingQueue", ["q"], ["x", "y"], num_elements=2),
    *feed(b=np.array([1, 2])),
    *run("EnqueueRebatchingQueue", ["q", "a", "b"], [], enqueue_batch=1),
    *run("CloseRebatchingQueue", ["q"], []),
    *run("DequeueRebatchingQueue", ["q"], ["x", "y"], num_elements=2),
    *run("DequeueRebatchingQueue", ["q"], ["x", "y"]),
    *run("EnqueueRebatchingQueue", ["q", "a", "b"], []),
]
INDICES = [
    make("StringIndexCreate", "i", max_elements=3),
    *feed(k=np.array([b"x", b"yy", b"x"], object)),
    *run("IndexGet", ["i", "k"], ["n"]),
    *run("IndexSize", ["i"], ["n"]),
    *run("IndexStore", ["i"], ["n"]),
    *feed(k=np.array([b"z"], object)),
    *only_run("IndexGet", ["i", "k"], ["n"]),
    ("RunOperatorOnce", operator("IndexFreeze", ["i"], ["i"])),
    *run("IndexGet", ["i", "k"], ["n"]),
    ("SerializeBlob", "i"),
    make("LongIndexCreate", "j", max_elements=10),
    *feed(k=np.array([4, 5, 6])),
    ("RunOperatorOnce", operator("IndexLoad", ["j", "k"], ["j"], skip_first_entry=1)),
    *run("IndexGet", ["j", "k"], ["n"]),
    ("SerializeBlob", "j"),
    *feed(k=np.array([4, 4])),
    ("RunOperatorOnce", operator("IndexLoad", ["j", "k"], ["j"])),
    *run("IndexStore", ["j"], ["n"]),
]
OTHERS = [
    *feed(k=np.array([3]), v=np.array([30], np.int32)),
    ("RunOperatorOnce", operator("KeyValueToMap", ["k", "v"], ["m"])),
    *feed(v=np.array([31], np.int32)),
    ("RunOperatorOnce", operator("KeyValueToMap", ["k", "v"], ["m"])),
    *run("MapToKeyValue", ["m"], ["x", "y"]),
    ("SerializeBlob", "m"),
    *run("Fail", [], []),
    make("StatRegistryCreate", "r"),
    *feed(k=np.array([b"a"], object), v=np.array([3])),
    *run("StatRegistryUpdate", ["k", "v", "r"], []),
    *run("StatRegistryExport", ["r"], ["x", "y", "t"])[:-1],
    *run("StatRegistryExport", ["r"], ["x", "y", "t"])[:-1],
    make("TimerBegin", "t"),
    *run("TimerEnd", ["t"], []),
    *run("TimerEnd", ["t"], []),
    *feed(x=np.array([True, False])),
    *run("Assert", ["x"], []),
    *feed(x=np.array([True])),
    *run("Assert", ["x"], []),
]
TRANSCRIPTS = {
    "counters": COUNTERS,
    "atomics": ATOMICS,
    "queues": QUEUES,
    "rebatching": REBATCHING,
    "indices": INDICES,
    "others": OTHERS,
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_host_operators(name: str, tmp_path: Path) -> None:
    compare([TRANSCRIPTS[name]], tmp_path)
