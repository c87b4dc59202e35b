from __future__ import annotations

import numpy as np
import pytest

from caffe2_backend import NoBlobError, Workspace
from caffe2_bridge.builder import Net


@pytest.fixture
def parent() -> Workspace:
    parent = Workspace()
    parent.feed("outer", np.float32([1]))
    return parent


def test_blobs_of_the_parent_are_seen_and_written(parent: Workspace) -> None:
    child = Workspace(parent=parent)
    assert (child.blobs(), child.local_blobs()) == (["outer"], [])
    child.feed("outer", np.float32([2]))
    child.feed("own", np.float32([3]))
    assert parent.fetch("outer").tolist() == [2]  # type: ignore[union-attr] # a tensor
    assert (parent.blobs(), child.blobs(), child.local_blobs()) == (["outer"], ["outer", "own"], ["own"])


def test_an_own_blob_hides_one_that_the_parent_gets_later(parent: Workspace) -> None:
    child = Workspace(parent=parent)
    child.feed("x", np.float32([1]))
    child.create_blob("empty")
    parent.feed("x", np.float32([2]))
    parent.feed("empty", np.float32([2]))
    assert child.fetch("x").tolist() == [1]  # type: ignore[union-attr] # a tensor
    with pytest.raises(NoBlobError, match="does not have a value yet"):
        child.fetch("empty")
    child.feed("empty", np.float32([5]))
    assert parent.fetch("empty").tolist() == [2]  # type: ignore[union-attr] # a tensor


def test_only_own_blobs_are_removed(parent: Workspace) -> None:
    child = Workspace(parent=Workspace(parent=parent))
    child.feed("own", np.float32([3]))
    assert (child.remove_blob("outer"), child.remove_blob("own"), child.has_blob("own")) == (False, True, False)
    child.create_blob("outer")
    child.feed("own", np.float32([3]))
    child.reset()
    assert (child.local_blobs(), child.blobs(), child.has_blob("outer")) == ([], ["outer"], True)


def test_nets_run_on_both(parent: Workspace) -> None:
    child = Workspace(parent=parent)
    net = Net("n")
    net.op("Add", ["outer", "outer"], ["sum"])
    net.op("Copy", ["sum"], ["outer"])
    child.run_net_once(net)
    assert parent.fetch("outer").tolist() == [2]  # type: ignore[union-attr] # a tensor
    assert (parent.has_blob("sum"), child.fetch("sum").tolist()) == (False, [2])  # type: ignore[union-attr] # the same


def test_a_child_of_a_child_writes_where_the_blob_is(parent: Workspace) -> None:
    middle = Workspace(parent=parent)
    middle.create_blob("made")
    child = Workspace(parent=middle)
    child.feed("made", np.float32([4]))
    assert (middle.fetch("made").tolist(), parent.has_blob("made")) == ([4], False)  # type: ignore[union-attr] # a tensor


def test_the_elements_themselves(parent: Workspace) -> None:
    parent.host_array("outer")[0] = 7
    assert parent.fetch("outer").tolist() == [7]  # type: ignore[union-attr] # a tensor
    parent.feed("text", "abc")
    with pytest.raises(Exception, match="blob 'text' is not a tensor with an array of elements"):
        parent.host_array("text")
