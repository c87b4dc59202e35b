"""Make a case smaller that ends as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from conformance.corpus import Array

from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.verdict import Verdict

_MOST_TRIALS: Final = 60


def shrink(verdict: Verdict, judge: Callable[[Drawn], Verdict]) -> Verdict:
    """The verdict on a smaller case with the same outcome, the same operator types and the same kind of detail."""
    trials = _MOST_TRIALS
    shrunk = True
    while shrunk and trials:
        shrunk = False
        assert verdict.drawn is not None
        for smaller in _smaller(verdict.drawn):
            if not trials:
                break
            trials -= 1
            again = judge(smaller)
            if again.key == verdict.key:
                verdict, shrunk = again, True
                break
    return verdict


def _smaller(drawn: Drawn) -> Iterator[Drawn]:
    """Cases that are a step simpler: fewer arguments, smaller dims, plainer elements."""
    yield from _fewer_arguments(drawn)
    for size in sorted({dim for array in drawn.inputs.values() for dim in array.shape if dim > 1}, reverse=True):
        for new in {1, size // 2}:
            yield replace(drawn, inputs={name: _cut(array, size, new) for name, array in drawn.inputs.items()})
    for name, array in drawn.inputs.items():
        if array.dtype.kind in "fiu" and name not in drawn.quantized:
            for plain in (np.zeros_like(array), np.ones_like(array), _rounded(array)):
                if not np.array_equal(plain, array, equal_nan=array.dtype.kind == "f"):
                    yield replace(drawn, inputs={**drawn.inputs, name: plain})


def _fewer_arguments(drawn: Drawn) -> Iterator[Drawn]:
    for index, op in enumerate(drawn.net.op):
        for place, arg in enumerate(op.arg):
            if not arg.HasField("n"):
                net = drawn.copy_net()
                del net.op[index].arg[place]
                yield replace(drawn, net=net)


def _cut(array: Array, size: int, new: int) -> Array:
    """The array with ``new`` elements along each axis of ``size``."""
    return array[tuple(slice(new) if dim == size else slice(None) for dim in array.shape)]


def _rounded(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        return np.asarray(np.round(array, 1))
