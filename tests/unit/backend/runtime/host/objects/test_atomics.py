"""Mutexes and atomic booleans: what real Caffe2 1.9.1 returned for the same operators."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef


@pytest.mark.parametrize(("op_type", "dtype"), [("AtomicFetchAdd", np.int32), ("AtomicFetchAdd64", np.int64)])
def test_fetch_add_outputs_the_sum_and_the_value_before(op_type: str, dtype: Any) -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateMutex", [], ["m"]))
    workspace.feed("a", np.array([3, 5], dtype))
    workspace.feed("b", np.array([4], dtype))
    workspace.run_operator_once(operator(op_type, ["m", "a", "b"], ["a", "before"]))
    for name, value in (("a", 7), ("before", 3)):
        found = workspace.fetch(name)
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape, found.item()) == (dtype, (), value)
    workspace.feed("a", np.float32(3))
    with pytest.raises(RunError, match="blob 'a' must be a tensor of int"):
        workspace.run_operator_once(operator(op_type, ["m", "a", "b"], ["a", "before"]))


def test_fetch_add_is_exact_under_threads() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateMutex", [], ["m"]))
    workspace.feed("a", np.int64(0))
    workspace.feed("b", np.int64(2))
    add = operator("AtomicFetchAdd64", ["m", "a", "b"], ["a", "before"])
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(workspace.run_operator_once, add) for _ in range(400)]:
            done.result()
    assert workspace.fetch("a") == np.int64(800)


def test_a_mutex_serves_operators_on_tensors() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateMutex", [], ["m"]))
    workspace.feed("iteration", np.array([7]))
    workspace.create_net(NetDef(name="net", op=[operator("AtomicIter", ["m", "iteration"], ["iteration"])]))
    workspace.run_net("net", 3)
    assert workspace.fetch("iteration") == 10
    assert workspace.conversions() == 1


def test_an_atomic_boolean_is_set_once_and_for_all() -> None:
    workspace = Workspace()
    workspace.run_operator_once(operator("CreateAtomicBool", [], ["flag"]))
    seen = []
    for condition in (False, True, False):
        workspace.feed("condition", np.array([condition]))
        workspace.run_operator_once(operator("ConditionalSetAtomicBool", ["flag", "condition"], []))
        workspace.run_operator_once(operator("CheckAtomicBool", ["flag"], ["value"]))
        value = workspace.fetch("value")
        assert isinstance(value, np.ndarray)
        seen.append(value.tolist())
    assert seen == [[False], [True], [True]]
