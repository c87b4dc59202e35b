"""The spellings of window arguments."""

from __future__ import annotations

from typing import Any

import pytest

from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.netdef.window import window_argument


@pytest.mark.parametrize(
    ("arguments", "name", "count", "expected"),
    [
        ({}, "kernel", 2, []),
        ({"kernel": 3}, "kernel", 2, [3, 3]),
        ({"kernels": [2, 3, 4]}, "kernel", 3, [2, 3, 4]),
        ({"kernel_h": 2, "kernel_w": 5}, "kernel", 2, [2, 5]),
        ({"kernel_h": 2}, "kernel", 2, []),
        ({"pad_t": 1, "pad_l": 2, "pad_b": 3, "pad_r": 4}, "pad", 4, [1, 2, 3, 4]),
        ({"pads": [1], "pad": 2}, "pad", 4, [1, 2, 2, 2]),
    ],
)
def test_spellings(arguments: dict[str, Any], name: str, count: int, expected: list[int]) -> None:
    args = OpView(make_operator("Conv", [], [], arguments), 0).args
    assert window_argument(args, name, count) == expected
    assert not args.unread
