"""Names that a typed name is like, names in messages, and characters that a terminal must not see."""

from __future__ import annotations

import pytest

from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.diagnostics.nearest import nearest_first
from caffe2_bridge.diagnostics.printable import printable


def test_the_nearest_names_come_first() -> None:
    names = ["softmax", "conv1", "conv2_w", "CONV1_W"]
    assert nearest_first(names, ["conv1_w"]) == ["CONV1_W", "conv2_w", "conv1", "softmax"]
    assert nearest_first(names, ["softmx", "conv_1"])[0] == "softmax"


@pytest.mark.parametrize(("most", "text"), [(3, "'a', 'b', 'c'"), (2, "'a', 'b' and 1 more"), (0, " and 3 more")])
def test_names_beyond_the_most_are_counted(most: int, text: str) -> None:
    assert listed(["a", "b", "c"], most) == text


def test_characters_that_are_not_printable_are_escaped() -> None:
    assert printable("naïve\n\x1b[31m\u202e") == r"naïve\n\x1b[31m\u202e"
    assert printable("a\n\tb", keep="\n") == "a\n\\tb"
