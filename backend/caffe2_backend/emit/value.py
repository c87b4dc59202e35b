"""Arithmetic on arrays that are known now, or only when the net runs: known ones are computed, others emitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.shapes import Part, concat, cut, reshaped, round_half_even
from caffe2_backend.lowering.op import BOOL, INT64, Array, Op


@dataclass(frozen=True, eq=False)
class Number:
    """An array, or the blob that will hold it; ``dtype`` is float, double, int32, int64 or bool.

    Operators broadcast as NumPy's do and give numbers of the same type, comparisons bools. Numbers below zero are
    divided down (``//``), not towards zero. Where one operand is only known at run time, so is the result.
    """

    op: Op
    value: Array | str
    dtype: ir.DataType

    @property
    def known(self) -> Array | None:
        """The array where it is known, else None."""
        return None if isinstance(self.value, str) else self.value

    @property
    def blob(self) -> str:
        """A blob that holds it."""
        return self.value if isinstance(self.value, str) else self.op.const(self.value, self.dtype)

    def __add__(self, other: Operand) -> Number:
        return self._with(other, "Add", np.add)

    def __radd__(self, other: Operand) -> Number:
        return self + other

    def __sub__(self, other: Operand) -> Number:
        return self._with(other, "Sub", np.subtract)

    def __rsub__(self, other: Operand) -> Number:
        return self.like(other) - self

    def __mul__(self, other: Operand) -> Number:
        return self._with(other, "Mul", np.multiply)

    def __rmul__(self, other: Operand) -> Number:
        return self * other

    def __truediv__(self, other: Operand) -> Number:
        return self._with(other, "Div", np.divide)

    def __rtruediv__(self, other: Operand) -> Number:
        return self.like(other) / self

    def __floordiv__(self, other: Operand) -> Number:
        """Whole numbers, divided by positive ones."""
        by = self.like(other)
        if self.known is not None and by.known is not None:
            return Number(self.op, self.known // by.known, self.dtype)
        cut_off = self._with(by, "Div", np.floor_divide)
        return cut_off - (self - cut_off * by < 0).cast(self.dtype)

    def __mod__(self, other: Operand) -> Number:
        return self - self // other * other

    def __lt__(self, other: Operand) -> Number:
        return self._with(other, "LT", np.less, BOOL)

    def __le__(self, other: Operand) -> Number:
        return self._with(other, "LE", np.less_equal, BOOL)

    def __gt__(self, other: Operand) -> Number:
        return self._with(other, "GT", np.greater, BOOL)

    def __ge__(self, other: Operand) -> Number:
        return self._with(other, "GE", np.greater_equal, BOOL)

    def __and__(self, other: Operand) -> Number:
        return self._with(other, "And", np.logical_and, BOOL)

    def __invert__(self) -> Number:
        return self._alone("Not", np.logical_not)

    def floor(self) -> Number:
        """The whole number at or below each float."""
        return self._alone("Floor", np.floor)

    def rounded(self) -> Number:
        """The nearest whole number of each float, the even one of two."""
        if self.known is not None:
            return Number(self.op, np.rint(self.known), self.dtype)
        return Number(self.op, round_half_even(self.op, self.blob), self.dtype)

    def absolute(self) -> Number:
        """Each float without its sign."""
        return self._alone("Abs", np.abs)

    def cosine(self) -> Number:
        """The cosine of each float."""
        return self._alone("Cos", np.cos)

    def sine(self) -> Number:
        """The sine of each float."""
        return self._alone("Sin", np.sin)

    def cast(self, dtype: ir.DataType) -> Number:
        """The numbers in another type; floats are cut off at the point."""
        if dtype == self.dtype:
            return self
        if self.known is not None:
            return Number(self.op, self.known.astype(dtype.numpy()), dtype)
        return Number(self.op, self.op.cast(self.blob, dtype), dtype)

    def chosen(self, other: Operand, where: Number) -> Number:
        """These finite numbers where ``where`` holds, those of ``other`` elsewhere."""
        if self.known is not None and where.known is not None and (rest := self.like(other)).known is not None:
            return Number(self.op, np.where(where.known, self.known, rest.known), self.dtype)
        return self * where.cast(self.dtype) + self.like(other) * (~where).cast(self.dtype)

    def at_least(self, other: Operand) -> Number:
        """The greater of two finite numbers."""
        return self.chosen(other, self > other)

    def at_most(self, other: Operand) -> Number:
        """The lesser of two finite numbers."""
        return self.chosen(other, self < other)

    def reshape(self, *parts: Part) -> Number:
        """The numbers in another shape, one dim of which may be -1."""
        if self.known is not None and all(isinstance(part, int) for part in parts):
            return Number(self.op, self.known.reshape([int(part) for part in parts]), self.dtype)
        return Number(self.op, reshaped(self.op, self.blob, parts), self.dtype)

    def summed(self, axis: int) -> Number:
        """The sums along an axis, which stays as one of size 1."""
        if self.known is not None:
            return Number(self.op, self.known.sum(axis, dtype=self.known.dtype, keepdims=True), self.dtype)
        return Number(self.op, self.op.emit("ReduceSum", self.blob, axes=[axis], keepdims=1), self.dtype)

    def like(self, other: Operand) -> Number:
        """A plain number in this one's type."""
        return (
            other if isinstance(other, Number) else Number(self.op, np.asarray(other, self.dtype.numpy()), self.dtype)
        )

    def _alone(self, kind: str, compute: Callable[..., Any]) -> Number:
        if self.known is not None:
            return Number(self.op, np.asarray(compute(self.known)), self.dtype)
        return Number(self.op, self.op.emit(kind, self.blob), self.dtype)

    def _with(self, other: Operand, kind: str, compute: Callable[..., Any], dtype: ir.DataType | None = None) -> Number:
        right = self.like(other)
        dtype = self.dtype if dtype is None else dtype
        if self.known is not None and right.known is not None:
            return Number(self.op, np.asarray(compute(self.known, right.known)), dtype)
        return Number(self.op, self.op.emit(kind, self.blob, right.blob), dtype)


Operand = Number | float


def known(op: Op, value: Any, dtype: ir.DataType = INT64) -> Number:
    """A number that is known."""
    return Number(op, np.asarray(value, dtype.numpy()), dtype)


def count(op: Op, part: Part) -> Number:
    """A dim: of no dims itself where it is known, else int64 [1]."""
    return known(op, part) if isinstance(part, int) else Number(op, part, INT64)


def steps(op: Op, length: Number) -> Number:
    """0, 1 and so on up to a length, int64."""
    if length.known is not None:
        return known(op, np.arange(int(length.known.reshape(-1)[0])))
    return Number(op, op.emit("Range", op.const([0], INT64), length.blob, op.const([1], INT64)), INT64)


def as_part(length: Number) -> Part:
    """A number as a dim."""
    return length.blob if length.known is None else int(length.known.reshape(-1)[0])


def beside(op: Op, numbers: Sequence[Number], axis: int) -> Number:
    """Numbers of one type one after the other along an axis."""
    arrays = [number.known for number in numbers]
    if all(array is not None for array in arrays):
        return Number(op, np.concatenate([a for a in arrays if a is not None], axis), numbers[0].dtype)
    return Number(op, concat(op, [number.blob for number in numbers], axis), numbers[0].dtype)


def entry(op: Op, index: int, place: int, dtype: ir.DataType) -> Number:
    """One number of a list, of no dims where it is known, else [1]."""
    array = op.known(index)
    if array is not None:
        return known(op, array.reshape(-1)[place], dtype)
    blob = cut(op, op.reshape(op.input(index), [-1]), 0, place, place + 1)
    return Number(op, blob if op.dtype(index) == dtype else op.cast(blob, dtype), dtype)


def gathered(op: Op, blob: str, axis: int, places: Number) -> str:
    """The entries of a blob at places of an axis; the places' dims take the axis's place."""
    return op.emit("Gather", blob, places.blob, axis=axis)


def weighted(op: Op, blob: str, axis: int, rank: int, places: Number, weights: Number, each: Part) -> str:
    """Sums over an axis: ``places`` and ``weights`` are [n, each]; of n new entries each is the sum of so many old."""
    spread = gathered(op, blob, axis, places)
    factors = weights.reshape(-1, each, *[1] * (rank - 1 - axis))
    return op.emit("ReduceSum", op.emit("Mul", spread, factors.blob), axes=[axis + 1], keepdims=0)
