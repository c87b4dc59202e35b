"""Indices: what real Caffe2 1.9.1 did with the same operators."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError

KINDS = {
    "IntIndexCreate": np.array([5, 7, 8, 9, 10], np.int32),
    "LongIndexCreate": np.array([5, 7, 8, 9, 10], np.int64),
    "StringIndexCreate": np.array([b"x", b"yy", b"8", b"9", b""], object),
}


def run(workspace: Workspace, op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> Any:
    workspace.run_operator_once(operator(op_type, inputs, outputs, **args))
    return np.asarray(workspace.fetch(outputs[0])) if outputs[0] != "i" else None


def numbers(workspace: Workspace, keys: Any) -> Any:
    workspace.feed("keys", keys)
    found = run(workspace, "IndexGet", ["i", "keys"], ["n"])
    assert found.dtype == np.int64
    return found.tolist()


def load(workspace: Workspace, keys: Any, **args: Any) -> None:
    workspace.feed("keys", keys)
    run(workspace, "IndexLoad", ["i", "keys"], ["i"], **args)


def size(workspace: Workspace) -> int:
    found = run(workspace, "IndexSize", ["i"], ["size"])
    assert (found.dtype, found.shape) == (np.int64, ())
    return int(found)


@pytest.mark.parametrize("op_type", KINDS)
def test_keys_are_numbered_from_one(op_type: str) -> None:
    workspace, keys = Workspace(), KINDS[op_type]
    run(workspace, op_type, [], ["i"], max_elements=3)
    assert size(workspace) == 1
    assert numbers(workspace, keys[[0, 1, 0]].reshape(3, 1)) == [[1], [2], [1]]
    assert size(workspace) == 3
    with pytest.raises(RunError, match="index 'i' is full: max_elements is 3"):
        numbers(workspace, keys[2:])
    stored = run(workspace, "IndexStore", ["i"], ["stored"])
    assert (stored.dtype, stored.tolist()) == (keys.dtype, keys[:2].tolist())
    run(workspace, "IndexFreeze", ["i"], ["i"])
    assert numbers(workspace, keys[[0, 4]]) == [1, 0]


@pytest.mark.parametrize("op_type", KINDS)
def test_keys_are_loaded(op_type: str) -> None:
    workspace, keys = Workspace(), KINDS[op_type]
    run(workspace, op_type, [], ["i"], max_elements=10)
    load(workspace, keys[1:])
    assert size(workspace) == 5
    assert numbers(workspace, keys[[0, 1, 3]]) == [5, 1, 3]
    load(workspace, keys, skip_first_entry=1)
    assert run(workspace, "IndexStore", ["i"], ["stored"]).tolist() == keys[1:].tolist()
    with pytest.raises(RunError, match="blob 'keys' holds a key twice"):
        load(workspace, keys[[0, 1, 0]])
    run(workspace, op_type, [], ["i"], max_elements=2)
    with pytest.raises(RunError, match="5 keys, and max_elements of index 'i' is 2"):
        load(workspace, keys)
    with pytest.raises(RunError, match="blob 'keys' must be a tensor of"):
        numbers(workspace, np.array([1.5]))


def test_threads_get_the_same_numbers() -> None:
    workspace = Workspace()
    run(workspace, "LongIndexCreate", [], ["i"])

    def look_up(thread: int) -> list[int]:
        workspace.feed(f"keys{thread}", np.arange(50))
        workspace.run_operator_once(operator("IndexGet", ["i", f"keys{thread}"], [f"n{thread}"]))
        found: list[int] = np.asarray(workspace.fetch(f"n{thread}")).tolist()
        return found

    with ThreadPoolExecutor(4) as pool:
        found = [done.result() for done in [pool.submit(look_up, i) for i in range(8)]]
    assert all(sorted(each) == list(range(1, 51)) for each in found)
    assert all(each == found[0] for each in found)
