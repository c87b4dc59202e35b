"""Objects in one line."""

from __future__ import annotations

from caffe2_bridge.diagnostics.short_repr import short_repr


class Thing:
    pass


def test_facts_in_order_without_those_that_are_empty() -> None:
    shown = short_repr(Thing(), "a name", "", inputs=("x", "y"), outputs=(), size=0, covered=False, owner="", none=None)
    assert shown == "Thing('a name', inputs=[x, y], size=0, covered=False)"


def test_many_names_long_texts_and_control_characters() -> None:
    shown = short_repr(Thing(), names=[f"n{i}" for i in range(100)], path="/" * 100, bad=["a\x1b[2J\n"])
    assert shown == rf"Thing(names=[n0, n1, n2, n3 and 96 more], path='{'/' * 30}...{'/' * 30}', bad=[a\x1b[2J\n])"
