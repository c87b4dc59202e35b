"""Softmax and its like, which were of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from support.opset_cases.spelling import LAST, X234, F, Spelling


def spellings() -> Iterator[Spelling]:
    """Yield Softmax and its like, of a matrix before opset 13, axis 1 by default; then along one axis, the last."""
    functions: dict[str, Callable[[Any], Any]] = {
        "Softmax": lambda m: np.exp(m) / np.exp(m).sum(-1, keepdims=True),
        "LogSoftmax": lambda m: m - np.log(np.exp(m).sum(-1, keepdims=True)),
        "Hardmax": lambda m: np.eye(m.shape[-1], dtype=F)[m.argmax(-1)],
    }
    for name, function in functions.items():
        for axis in (None, 0, 1, 2, -2):
            attribute = "" if axis is None else f"<axis = {axis}>"
            text, feed = ("float[2,3,4] x", f"y = {name}{attribute}(x)"), {"x": X234}
            before, after = 1 if axis is None else axis % 3, -1 if axis is None else axis

            def coerced(x: Any, function: Any = function, axis: int = before) -> Any:
                return function(x.reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape)

            def along(x: Any, function: Any = function, axis: int = after) -> Any:
                return np.moveaxis(function(np.moveaxis(x, axis, -1)), -1, axis)

            yield Spelling(1 if axis is None or axis >= 0 else 11, 12, *text, feed, expected=coerced)
            yield Spelling(13, LAST, *text, feed, expected=along)
