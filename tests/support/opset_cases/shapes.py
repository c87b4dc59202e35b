"""Operators whose operands were attributes, or whose axes may be negative later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from support.opset_cases.spelling import LAST, X234, F, Spelling, constant, numbers


def spellings() -> Iterator[Spelling]:
    """Yield operators whose operands were attributes, or whose axes may be negative later."""
    x, feed, one = X234, {"x": X234}, "float[2,3,4] x"
    for axis in (0, 1, 2, 3, -1):
        flat = axis % 3 if axis < 0 else axis
        yield Spelling(1 if axis >= 0 else 11, LAST, one, f"y = Flatten<axis = {axis}>(x)", feed,
                       expected=lambda x, n=flat: x.reshape(int(np.prod(x.shape[:n])), -1))  # fmt: skip
    yield Spelling(1, 4, one, "y = Reshape<shape = [0, -1]>(x)", feed, expected=lambda x: x.reshape(2, -1))
    yield Spelling(
        1, 4, one, "y = Reshape<shape = [4, 6], consumed_inputs = [0]>(x)", feed, expected=lambda x: x.reshape(4, 6)
    )
    yield Spelling(5, LAST, one, "y = Reshape(x, s)", feed, "<int64[2] s = {0, -1}>", lambda x: x.reshape(2, -1))
    yield Spelling(14, LAST, "float[0,3] x", "y = Reshape<allowzero = 1>(x, s)", {"x": np.zeros((0, 3), F)},
                   "<int64[2] s = {3, 0}>", lambda x: x.reshape(3, 0))  # fmt: skip
    thin = {"x": x.reshape(1, 2, 3, 1, 4)}
    for axes, positive in (("0, 3", True), ("-5, -2", False)):
        first = 1 if positive else 11
        yield Spelling(
            first,
            12,
            "float[1,2,3,1,4] x",
            f"y = Squeeze<axes = [{axes}]>(x)",
            thin,
            expected=lambda x: x.reshape(2, 3, 4),
        )
        yield Spelling(
            first, 12, one, f"y = Unsqueeze<axes = [{axes}]>(x)", feed, expected=lambda x: x.reshape(1, 2, 3, 1, 4)
        )
        head = f"<int64[2] a = {{{axes}}}>"
        yield Spelling(13, LAST, "float[1,2,3,1,4] x", "y = Squeeze(x, a)", thin, head, lambda x: x.reshape(2, 3, 4))
        yield Spelling(13, LAST, one, "y = Unsqueeze(x, a)", feed, head, lambda x: x.reshape(1, 2, 3, 1, 4))
    yield Spelling(1, LAST, "float[1,2,3,1,4] x", "y = Squeeze(x)", thin, expected=lambda x: x.reshape(2, 3, 4))
    yield Spelling(1, LAST, one, "y = Transpose<perm = [2, 0, 1]>(x)", feed, expected=lambda x: x.transpose(2, 0, 1))
    yield Spelling(1, LAST, one, "y = Shape(x)", feed, kind="int64", expected=lambda x: np.array(x.shape))
    yield Spelling(
        15, LAST, one, "y = Shape<start = 1, end = -1>(x)", feed, kind="int64", expected=constant(np.array([3]))
    )
    yield Spelling(1, LAST, one, "y = Size(x)", feed, kind="int64", expected=constant(np.array(24)))
    both = {"x": x, "z": numbers(2, 1, 4)}
    inputs = "float[2,3,4] x, float[2,1,4] z"
    yield Spelling(1, 3, inputs, "y = Concat(x, z)", both, expected=lambda x, z: np.concatenate([x, z], 1))
    yield Spelling(1, LAST, inputs, "y = Concat<axis = 1>(x, z)", both, expected=lambda x, z: np.concatenate([x, z], 1))
    yield Spelling(
        11, LAST, inputs, "y = Concat<axis = -2>(x, z)", both, expected=lambda x, z: np.concatenate([x, z], 1)
    )
    sliced = "axes = [1, 2], ends = [-1, 100], starts = [0, -3]"
    yield Spelling(1, 9, one, f"y = Slice<{sliced}>(x)", feed, expected=lambda x: x[:, 0:-1, -3:])
    yield Spelling(1, 9, one, "y = Slice<ends = [1, 2], starts = [0, 1]>(x)", feed, expected=lambda x: x[0:1, 1:2])
    head = "<int64[2] s = {0, -3}, int64[2] e = {-1, 100}, int64[2] a = {1, 2}, int64[2] t = {1, 2}>"
    yield Spelling(10, LAST, one, "y = Slice(x, s, e, a, t)", feed, head, lambda x: x[:, 0:-1, -3::2])
    for node, last in (("Split", 1), ("Split<axis = 2>", LAST)):
        axis = 0 if last == 1 else 2
        yield Spelling(
            1, min(last, 17), one, f"y, z = {node}(x)", feed, expected=lambda x, n=axis: np.split(x, 2, n)[0]
        )
    yield Spelling(1, 12, one, "y, z = Split<axis = 2, split = [1, 3]>(x)", feed, expected=lambda x: x[:, :, :1])
    yield Spelling(1, 1, one, "y, z = Split<axis = 1>(x, s)", feed, "<float[2] s = {1, 2}>", lambda x: x[:, :1])
    yield Spelling(2, 17, one, "y, z = Split(x)", feed, expected=lambda x: x[:1])
    yield Spelling(13, LAST, one, "y, z = Split<axis = -1>(x, s)", feed, "<int64[2] s = {1, 3}>", lambda x: x[:, :, :1])
    yield Spelling(18, LAST, one, "y, z = Split<axis = 1, num_outputs = 2>(x)", feed, expected=lambda x: x[:, :2])
    tiles = "<int64[3] r = {1, 2, 1}>"
    yield Spelling(6, LAST, one, "y = Tile(x, r)", feed, tiles, lambda x: np.tile(x, (1, 2, 1)))
    yield Spelling(
        1, 5, one, "y = Tile(x, n, a)", feed, "<float[1] n = {2}, float[1] a = {1}>", lambda x: np.tile(x, (1, 2, 1))
    )
    yield from _pads()


def _pads() -> Iterator[Spelling]:
    feed, one = {"x": X234}, "float[2,3,4] x"
    wide: tuple[tuple[str, dict[str, Any]], ...] = (
        ("reflect", {}),
        ("edge", {}),
        ("constant", {"constant_values": F(1.5)}),
    )
    for mode, more in wide:
        value = ", value = 1.5" if more else ""
        pads = "0, 1, 2, 0, 0, 1"

        def pad(x: Any, mode: Any = mode, more: Any = more) -> Any:
            return np.pad(x, ((0, 0), (1, 0), (2, 1)), mode, **more)

        yield Spelling(1, 1, one, f'y = Pad<mode = "{mode}", paddings = [{pads}]{value}>(x)', feed, expected=pad)
        yield Spelling(2, 10, one, f'y = Pad<mode = "{mode}", pads = [{pads}]{value}>(x)', feed, expected=pad)
        head, operands = f"<int64[6] p = {{{pads}}}, float v = {{1.5}}>", "x, p, v" if more else "x, p"
        yield Spelling(11, LAST, one, f'y = Pad<mode = "{mode}">({operands})', feed, head, pad)
    head = "<int64[2] p = {1, 2}, int64[1] a = {-1}>"
    for mode, first in (("wrap", 19), ("edge", 18)):
        yield Spelling(first, LAST, one, f'y = Pad<mode = "{mode}">(x, p, , a)', feed, head,
                       lambda x, m=mode: np.pad(x, ((0, 0), (0, 0), (1, 2)), m))  # fmt: skip
    yield Spelling(8, LAST, "float[3,1] x", "y = Expand(x, s)", {"x": numbers(3, 1)}, "<int64[2] s = {1, 4}>",
                   lambda x: np.broadcast_to(x, (3, 4)))  # fmt: skip
    yield Spelling(8, LAST, "float[3,1] x", "y = Expand(x, s)", {"x": numbers(3, 1)}, "<int64[2] s = {3, 0}>",
                   lambda x: np.broadcast_to(x, (3, 0)))  # fmt: skip
