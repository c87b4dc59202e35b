"""Reductions, searches and gathers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from support.opset_cases.spelling import LAST, X234, F, Spelling, numbers


def spellings() -> Iterator[Spelling]:
    """Yield reductions, searches and gathers."""
    feed, one = {"x": abs(X234) + 0.5}, "float[2,3,4] x"
    reductions: dict[str, Callable[..., Any]] = {
        "Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min, "Prod": np.prod,
        "L1": lambda x, a, **k: np.sum(abs(x), a, **k), "L2": lambda x, a, **k: np.sqrt(np.sum(x * x, a, **k)),
        "SumSquare": lambda x, a, **k: np.sum(x * x, a, **k), "LogSum": lambda x, a, **k: np.log(np.sum(x, a, **k)),
        "LogSumExp": lambda x, a, **k: np.log(np.sum(np.exp(x), a, **k)),
    }  # fmt: skip
    for name, reduction in reductions.items():
        change = 13 if name == "Sum" else 18

        def reduced(x: Any, reduction: Any = reduction) -> Any:
            return reduction(x, (0, 2), keepdims=False)

        def whole(x: Any, reduction: Any = reduction) -> Any:
            return reduction(x, (0, 1, 2), keepdims=True)

        for axes, first in (("0, 2", 1), ("-3, -1", 11)):
            node = f"y = Reduce{name}<axes = [{axes}], keepdims = 0>(x)"
            yield Spelling(first, change - 1, one, node, feed, expected=reduced)
            node = f"y = Reduce{name}<keepdims = 0>(x, a)"
            yield Spelling(change, LAST, one, node, feed, f"<int64[2] a = {{{axes}}}>", reduced)
        yield Spelling(1, LAST, one, f"y = Reduce{name}(x)", feed, expected=whole)
        node = f"y = Reduce{name}<noop_with_empty_axes = 1>(x)"
        # Nothing is reduced, and yet squares and absolute values are taken.
        yield Spelling(change, LAST, one, node, feed, expected=lambda x, r=reduction: r(x[None], (0,)))
    ties = np.array([[1, 3, 3], [2, 2, 0]], F)
    for name, search in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for axis, first in ((1, 1), (-1, 11)):
            node = f"y = {name}<axis = {axis}, keepdims = 0>(x)"
            yield Spelling(
                first, LAST, "float[2,3] x", node, {"x": ties}, kind="int64", expected=lambda x, s=search: s(x, 1)
            )
        yield Spelling(
            1,
            LAST,
            "float[2,3] x",
            f"y = {name}(x)",
            {"x": ties},
            kind="int64",
            expected=lambda x, s=search: s(x, 0)[None],
        )
        node = f"y = {name}<axis = 1, keepdims = 0, select_last_index = 1>(x)"
        yield Spelling(
            12, LAST, "float[2,3] x", node, {"x": ties}, kind="int64", expected=lambda x, s=search: 2 - s(x[:, ::-1], 1)
        )
    best = {"x": X234}
    yield Spelling(1, 9, one, "y, i = TopK<axis = 1, k = 2>(x)", best, expected=lambda x: -np.sort(-x, 1)[:, :2])
    yield Spelling(
        10, LAST, one, "y, i = TopK<axis = 1>(x, k)", best, "<int64[1] k = {2}>", lambda x: -np.sort(-x, 1)[:, :2]
    )
    yield Spelling(
        11,
        LAST,
        one,
        "y, i = TopK<axis = 1, largest = 0>(x, k)",
        best,
        "<int64[1] k = {2}>",
        lambda x: np.sort(x, 1)[:, :2],
    )
    index = {"x": X234, "i": np.array([[0, 2], [1, 0]])}
    yield Spelling(1, LAST, f"{one}, int64[2,2] i", "y = Gather<axis = 1>(x, i)", index, expected=lambda x, i: x[:, i])
    behind = {"x": X234, "i": np.array([[0, -1], [1, -3]])}
    yield Spelling(
        11, LAST, f"{one}, int64[2,2] i", "y = Gather<axis = -2>(x, i)", behind, expected=lambda x, i: x[:, i]
    )
    yield Spelling(
        11, LAST, "float[2,3] x, int64[2,2] i", "y = GatherND(x, i)", {"x": ties, "i": np.array([[0, 1], [1, 0]])}
    )
    yield Spelling(
        12,
        LAST,
        "float[2,3] x, int64[2,1] i",
        "y = GatherND<batch_dims = 1>(x, i)",
        {"x": ties, "i": np.array([[2], [0]])},
    )
    spread = {"x": ties, "i": np.array([[2, 0], [0, 1]]), "u": numbers(2, 2)}
    inputs = "float[2,3] x, int64[2,2] i, float[2,2] u"
    yield Spelling(9, 10, inputs, "y = Scatter<axis = 1>(x, i, u)", spread)
    yield Spelling(11, LAST, inputs, "y = ScatterElements<axis = 1>(x, i, u)", spread)
    for how, first in (("add", 16), ("max", 18)):
        yield Spelling(first, LAST, inputs, f'y = ScatterElements<axis = 1, reduction = "{how}">(x, i, u)', spread)
    numbered = {"x": np.array([1, 0, 2])}
    head = "<int64[1] d = {3}, float[2] v = {0, 5}>"
    yield Spelling(9, LAST, "int64[3] x", "y = OneHot<axis = 0>(x, d, v)", numbered, head)
    yield Spelling(11, LAST, "int64[3] x", "y = OneHot<axis = -1>(x, d, v)", {"x": np.array([1, -1, 2])}, head)
    yield Spelling(11, LAST, "float[3] x", "y = CumSum<reverse = 1>(x, a)", {"x": numbers(3)}, "<int64 a = {0}>")
