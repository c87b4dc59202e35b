"""std::shuffle of libstdc++ with std::default_random_engine: Caffe2 shuffles datasets with it, from a fixed state."""

from __future__ import annotations

from typing import Final

from caffe2_backend.runtime.values import Array

_MULTIPLIER: Final = 16807
_MODULUS: Final = 2**31 - 1
_RANGE: Final = _MODULUS - 2  # the largest number drawn, less the smallest


class Engine:
    """std::minstd_rand0: numbers from 1 to 2 ** 31 - 2."""

    def __init__(self) -> None:
        self._state = 1

    def draw(self) -> int:
        """Draw a number."""
        self._state = self._state * _MULTIPLIER % _MODULUS
        return self._state

    def below(self, limit: int) -> int:
        """Draw a number from 0 to ``limit - 1``, as std::uniform_int_distribution; ``limit`` is below 2 ** 31 - 2."""
        scaling = _RANGE // limit
        while True:
            number = self.draw() - 1
            if number < limit * scaling:
                return number // scaling


def shuffle(array: Array, engine: Engine) -> None:
    """Shuffle the elements of a flat array in place.

    While the square of the size is in the range of the engine, one number is drawn for two swaps.
    """
    size = len(array)
    if size < 2:
        return
    if _RANGE // size < size:
        for i in range(1, size):
            _swap(array, i, engine.below(i + 1))
        return
    start = 1
    if size % 2 == 0:
        _swap(array, 1, engine.below(2))
        start = 2
    for i in range(start, size, 2):
        first, second = divmod(engine.below((i + 1) * (i + 2)), i + 2)
        _swap(array, i, first)
        _swap(array, i + 1, second)


def _swap(array: Array, i: int, j: int) -> None:
    array[i], array[j] = array[j], array[i]
