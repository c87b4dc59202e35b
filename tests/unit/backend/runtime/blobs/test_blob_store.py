"""Stores of blobs, and stores that see those of a parent."""

from __future__ import annotations

import threading

import numpy as np

from caffe2_backend.runtime.blobs.blob_store import BlobStore
from caffe2_backend.runtime.blobs.results import Results


def test_blobs_of_a_parent_are_written_there() -> None:
    parent = BlobStore(0)
    parent.create("known")
    child = BlobStore(None, parent)
    child.commit(Results({"known": np.ones(1), "new": np.zeros(2)}), constant=True)
    assert sorted(parent.names()) == ["known"]
    assert sorted(child.names()) == ["known", "new"]
    assert sorted(child.own_names()) == ["new"]
    assert parent.get("known") is child.get("known") is child.constants["known"] is parent.constants["known"]
    child.clear("known")
    assert parent.has("known")
    assert parent.get("known") is None
    assert not child.remove("known")
    assert child.remove("new")
    assert not child.has("new")


def test_a_child_draws_the_numbers_of_its_parent() -> None:
    parent, alone = BlobStore(3), BlobStore(3)
    child = BlobStore(None, parent)
    assert [child.draw_seed(), parent.draw_seed()] == [alone.draw_seed(), alone.draw_seed()]


def test_updates_of_one_blob_follow_each_other() -> None:
    parent = BlobStore(0)
    parent.set("w", np.zeros(1))
    child = BlobStore(None, parent)
    order: list[str] = []
    entered = threading.Event()

    def update() -> None:
        entered.set()
        with parent.updating(["w", "v"]):
            order.append("second")

    with child.updating(["own", "w", "w"]):
        thread = threading.Thread(target=update)
        thread.start()
        entered.wait()
        with parent.updating(["other"]):  # another blob: nobody waits
            order.append("first")
    thread.join()
    assert order == ["first", "second"]
