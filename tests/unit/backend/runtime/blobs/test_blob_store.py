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
        with parent.updating(("w", "v")):
            order.append("second")

    with child.updating(("own", "w", "w")):
        thread = threading.Thread(target=update)
        thread.start()
        entered.wait()
        with parent.updating(("other",)):  # another blob: nobody waits
            order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_overlapping_updates_wait_for_each_other_in_any_order() -> None:
    store = BlobStore(0)
    counts = dict.fromkeys("abc", 0)

    def update(names: tuple[str, ...]) -> None:
        for _ in range(2_000):
            with store.updating(names):
                for name in names:
                    counts[name] += 1

    groups = [("a", "b"), ("b", "c"), ("c", "a"), ("c",), ("b", "a")]
    threads = [threading.Thread(target=update, args=(names,), daemon=True) for names in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert counts == {"a": 6_000, "b": 6_000, "c": 6_000}


def test_updates_follow_a_blob_to_its_owner() -> None:
    parent = BlobStore(0)
    child = BlobStore(None, parent)
    entered = threading.Event()

    def update() -> None:
        with parent.updating(("w",)):
            entered.set()

    with child.updating(("w",)):  # a blob that the child would create: another one than the parent's
        thread = threading.Thread(target=update)
        thread.start()
        assert entered.wait(60)
    thread.join()
    entered.clear()
    parent.create("w")
    with child.updating(("w",)):
        thread = threading.Thread(target=update)
        thread.start()
        assert not entered.wait(0.05)
    thread.join()
    assert entered.is_set()
