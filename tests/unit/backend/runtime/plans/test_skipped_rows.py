"""Rows that operators skip, counted over runs; each case was run in real Caffe2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

VALUES = np.arange(4, dtype=np.float32)
MASK = operator("SparseToDenseMask", ["ids", "values", "default", "lengths"], ["y"], mask=[1, 2], max_skipped_indices=3)
TOO_MANY = r"SparseToDenseMask: too many rows with invalid indices were skipped: 3, .* max_skipped_indices \(3\)"


def sparse(ids: list[int], lengths: list[int]) -> Workspace:
    workspace = Workspace()
    workspace.feed("ids", np.array(ids, np.int64))
    workspace.feed("values", VALUES)
    workspace.feed("default", np.float32(0))
    workspace.feed("lengths", np.array(lengths, np.int32))
    return workspace


@pytest.mark.parametrize(
    ("ids", "lengths", "passes"),
    [
        ([-1, -1, -1, -1], [2, 2], True),
        ([-1, -1, -1, 1], [1, 1, 1, 1], False),
        ([-1, 1, np.iinfo(np.int64).max, -7], [1, 1, 1, 1], False),
        ([-1, 1, 5, -7], [1, 0, 2, 1], True),
    ],
)
def test_rows_with_invalid_indices(ids: list[int], lengths: list[int], passes: bool) -> None:
    workspace = sparse(ids, lengths)
    if passes:
        workspace.run_operator_once(MASK)
        return
    with pytest.raises(RunError, match=TOO_MANY):
        workspace.run_operator_once(MASK)


def test_one_row_without_lengths() -> None:
    workspace = sparse([-1, -2, -3, 1], [])
    one = operator("SparseToDenseMask", ["ids", "values", "default"], ["y"], mask=[1, 2], max_skipped_indices=2)
    workspace.run_operator_once(one)
    with pytest.raises(RunError, match="skipped: 2"):
        workspace.run_operator_once(one, times=2)


def test_counts_go_on_in_a_created_net_and_not_when_it_is_run_once() -> None:
    workspace = sparse([-1, 1, 2, 1], [4])
    net = NetDef(name="net", op=[operator("Copy", ["values"], ["before"]), MASK, operator("Copy", ["y"], ["after"])])
    for _ in range(4):
        workspace.run_net_once(net)
    workspace.remove_blobs()
    for name, value in (("ids", [-1, 1, 2, 1]), ("values", VALUES), ("default", np.float32(0)), ("lengths", [4])):
        dtype = {"ids": np.int64, "lengths": np.int32}.get(name, np.float32)
        workspace.feed(name, np.asarray(value, dtype))
    workspace.create_net(net)
    with pytest.raises(RunError, match=TOO_MANY):
        workspace.run_net("net", 3)
    workspace.remove_blob("after")
    workspace.remove_blob("before")
    with pytest.raises(RunError, match="skipped: 4"):
        workspace.run_net("net")
    assert workspace.has_blob("before")
    assert not workspace.has_blob("after")


RANGES = np.array([[[0, 2], [0, 0]], [[0, 1], [2, 2]], [[0, 2], [0, 2]], [[2, 2], [0, 0]]], np.int32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"min_observation": 2, "max_mismatched_ratio": 0.3}, None),
        ({"min_observation": 50, "max_mismatched_ratio": 0.2}, None),
        ({"min_observation": 5, "max_mismatched_ratio": 0.2}, None),
        ({"min_observation": 4, "max_mismatched_ratio": 0.2}, r"mismatch for feature 0, 1 of 4, exceeds 0.2"),
        ({"min_observation": 4, "max_mismatched_ratio": 1.0, "max_empty_ratio": 0.4}, r"empty .* 1, 2 of 4, exceeds"),
        ({}, None),
    ],
)  # fmt: skip
def test_ranges_of_other_lengths(args: dict[str, Any], message: str | None) -> None:
    workspace = Workspace()
    workspace.feed("data", VALUES)
    workspace.feed("ranges", RANGES)
    gather = operator("GatherRangesToDense", ["data", "ranges"], ["y", "z"], lengths=[2, 2], **args)
    if message is None:
        workspace.run_operator_once(gather)
        return
    with pytest.raises(RunError, match=message):
        workspace.run_operator_once(gather)
