"""Classes of equal dims."""

from __future__ import annotations

from caffe2_frontend.dims.classes import DimClasses


def test_sizes_reach_the_whole_class() -> None:
    classes = DimClasses()
    assert classes.join("a", "b")
    assert classes.join("c", 3)
    assert classes.join("b", "c")
    assert not classes.join("a", "c")
    assert [classes.size(symbol) for symbol in "abcd"] == [3, 3, 3, None]
    assert classes.root("a") == classes.root("c") != classes.root("d")


def test_contradictory_sizes_are_dropped() -> None:
    classes = DimClasses()
    classes.join("a", 2)
    classes.join("b", 3)
    classes.join("a", "b")
    assert classes.size("a") is None
    classes.join("b", 4)
    classes.join("c", 5)
    classes.join("c", "a")
    assert classes.size("c") is None
