"""Values under conversion: arrays that are known now, or blobs that will hold them when the net runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from caffe2_backend.lowering.types import UNDEFINED
from caffe2_bridge.bounds import MAX_FOLDED
from caffe2_frontend.interop.operator_base import refuse_shapes
from caffe2_frontend.interop.types import BOOL, FLOAT

Array = np.ndarray[Any, Any]


class Builder(Protocol):
    """What emits the operators that compute values."""

    def emit(self, op_type: str, *inputs: Value, **args: Any) -> Value:
        """Emit an operator of one output and return that."""

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Emit a Reshape and return the value in its new shape."""

    def const(self, array: Any, dtype: ir.DataType | None = None) -> Value:
        """Return a constant; refuses the node where the element type is unknown, or does not hold the numbers."""

    def constant_blob(self, array: Array) -> str:
        """Return the name of a blob that holds a constant."""


class Value:
    """A tensor: an array that is known now, or a blob of which the element type and perhaps the shape are known.

    Arithmetic on arrays is computed at once; where one operand is a blob, an operator of Caffe2 is emitted. Operands
    broadcast as NumPy's do, and plain numbers take the element type of the other operand; a comparison gives bools.

    An operand that is an initializer counts as a blob, since its array may be large: ``const_value`` has its contents.
    ``dtype`` is UNDEFINED where the element type is unknown, ``shape`` None where the rank is unknown.
    """

    __slots__ = ("_builder", "_name", "array", "const_value", "dtype", "shape")

    def __init__(
        self,
        builder: Builder,
        *,
        name: str | None = None,
        array: Array | None = None,
        dtype: ir.DataType = UNDEFINED,
        shape: ir.Shape | None = None,
        const_value: ir.TensorProtocol | None = None,
    ) -> None:
        self._builder = builder
        self._name = name
        self.array = array
        self.dtype = dtype
        self.shape = ir.Shape(array.shape) if array is not None else shape
        self.const_value = const_value

    def __repr__(self) -> str:
        return f"Value({self._name if self.array is None else self.array!r}, {self.dtype.name})"

    @property
    def name(self) -> str:
        """The blob that holds the value; one is made for an array when this is first read."""
        if self._name is None:
            assert self.array is not None
            self._name = self._builder.constant_blob(self.array)
        return self._name

    @property
    def integer(self) -> int | None:
        """The integer where one is known (an array of one element), else None."""
        return None if self.array is None or not self.array.size else int(self.array.reshape(-1)[0])

    # Arithmetic

    def __add__(self, other: Operand) -> Value:
        return self._binary(other, "Add", np.add)

    def __radd__(self, other: Operand) -> Value:
        return self + other

    def __sub__(self, other: Operand) -> Value:
        return self._binary(other, "Sub", np.subtract)

    def __rsub__(self, other: Operand) -> Value:
        return self.like(other) - self

    def __mul__(self, other: Operand) -> Value:
        return self._binary(other, "Mul", np.multiply)

    def __rmul__(self, other: Operand) -> Value:
        return self * other

    def __truediv__(self, other: Operand) -> Value:
        """Return the quotient of floating-point numbers."""
        return self._binary(other, "Div", np.divide)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.like(other) / self

    def quotient(self, other: Operand) -> Value:
        """Return the integer quotient by a positive number, truncated toward zero, as Caffe2's Div gives it."""
        return self._binary(other, "Div", lambda a, b: np.sign(a) * (np.abs(a) // b))

    def __floordiv__(self, other: Operand) -> Value:
        """Return the integer quotient by a positive number, rounded down."""
        by = self.like(other)
        if self.array is not None and by.array is not None:
            return self._new(self.array // by.array)
        truncated = self.quotient(by)
        return truncated - (self - truncated * by < 0).cast(self.dtype)

    def __mod__(self, other: Operand) -> Value:
        """Return the remainder of a division by a positive integer, at least zero."""
        return self - self // other * other

    def __neg__(self) -> Value:
        return self._unary("Negative", np.negative)

    # Comparison and logic

    def __lt__(self, other: Operand) -> Value:
        return self._binary(other, "LT", np.less, BOOL)

    def __le__(self, other: Operand) -> Value:
        return self._binary(other, "LE", np.less_equal, BOOL)

    def __gt__(self, other: Operand) -> Value:
        return self._binary(other, "GT", np.greater, BOOL)

    def __ge__(self, other: Operand) -> Value:
        return self._binary(other, "GE", np.greater_equal, BOOL)

    def equals(self, other: Operand) -> Value:
        """Whether elements are equal. Caffe2 has EQ for integers and bools; equal floats are LE and GE, not NaN."""
        if self.dtype.is_floating_point():
            return (self <= other) & (self >= other)
        return self._binary(other, "EQ", np.equal, BOOL)

    def __and__(self, other: Value) -> Value:
        return self._binary(other, "And", np.logical_and, BOOL)

    def __or__(self, other: Value) -> Value:
        return self._binary(other, "Or", np.logical_or, BOOL)

    def __xor__(self, other: Value) -> Value:
        return self._binary(other, "Xor", np.logical_xor, BOOL)

    def __invert__(self) -> Value:
        return self._unary("Not", np.logical_not)

    def select(self, other: Operand, where: Value) -> Value:
        """Return these elements where ``where`` holds, those of ``other`` elsewhere.

        Both are finite: Caffe2's Where does not broadcast, hence a sum of products with the condition. Of integers, it
        is the other ones and a product with the difference, which floats would round.
        """
        rest = self.like(other)
        if self.array is not None and where.array is not None and rest.array is not None:
            return self._new(np.where(where.array, self.array, rest.array))
        if self.dtype.is_integer():
            if rest.integer == 0 and rest.array is not None and rest.array.size == 1:
                return self * where.cast(self.dtype)
            return rest + (self - rest) * where.cast(self.dtype)
        return self * where.cast(self.dtype) + rest * (~where).cast(self.dtype)

    def maximum(self, other: Operand) -> Value:
        """Return the larger of each two finite elements."""
        bound = self._bound(other)
        if bound is not None:
            return self._builder.emit("Clip", self, min=bound)
        return self.select(other, self > other)

    def minimum(self, other: Operand) -> Value:
        """Return the smaller of each two finite elements."""
        bound = self._bound(other)
        if bound is not None:
            return self._builder.emit("Clip", self, max=bound)
        return self.select(other, self < other)

    def _bound(self, other: Operand) -> float | None:
        """Return a number that Caffe2 limits floats to, which are computed when the net runs."""
        rest = self.like(other)
        if self.array is not None or self.dtype != FLOAT or rest.array is None or rest.array.shape:
            return None
        return float(rest.array)

    # Functions of floats

    def floor(self) -> Value:
        """Return the largest integer that is not above each float."""
        return self._unary("Floor", np.floor)

    def round(self) -> Value:
        """Return the nearest integer of each float, the even one of two.

        floor(x), plus one where the fraction is above one half, or is one half and floor(x) is odd: then half of
        floor(x) has a fraction of one half too.
        """
        if self.array is not None:
            return self._new(np.rint(self.array))
        floor = self.floor()
        fraction, halved = self - floor, floor * 0.5
        is_odd = halved - halved.floor() > 0.25
        is_tie = (fraction >= 0.5) & (fraction <= 0.5)
        return floor + ((fraction > 0.5) | (is_tie & is_odd)).cast(FLOAT)

    def absolute(self) -> Value:
        """Return the absolute value of each float."""
        return self._unary("Abs", np.abs)

    def cosine(self) -> Value:
        """Return the cosine of each float."""
        return self._unary("Cos", np.cos)

    def sine(self) -> Value:
        """Return the sine of each float."""
        return self._unary("Sin", np.sin)

    # Types and shapes

    def cast(self, dtype: ir.DataType) -> Value:
        """Return the elements in another type; floats are truncated to integers."""
        if dtype == self.dtype:
            return self
        if self.array is not None:
            return Value(self._builder, array=self.array.astype(dtype.numpy()), dtype=dtype)
        return self._builder.emit("Cast", self, to=dtype)

    def reshape(self, shape: Sequence[int]) -> Value:
        """Return the elements in another shape; 0 keeps a dim and -1 is inferred from the number of elements."""
        if self.array is not None:
            try:
                return self._new(self.array.reshape(shape))
            except ValueError:
                refuse_shapes(self.array.shape, tuple(shape))
        return self._builder.reshape(self, shape)

    def sum(self, axis: int) -> Value:
        """Return the sums along an axis, which stays as one of size 1."""
        if self.array is not None:
            return self._new(self.array.sum(axis, dtype=self.array.dtype, keepdims=True))
        return self._builder.emit("ReduceSum", self, axes=[axis], keepdims=1)

    def like(self, other: Operand) -> Value:
        """Return a plain number as a value of this one's element type; a value unchanged."""
        if isinstance(other, Value):
            return other
        return self._builder.const(other, self.dtype)

    def _new(self, array: Any) -> Value:
        return Value(self._builder, array=np.asarray(array), dtype=self.dtype)

    def _unary(self, op_type: str, compute: Callable[..., Any]) -> Value:
        if self.array is not None:
            return self._new(compute(self.array))
        return self._builder.emit(op_type, self)

    def _binary(
        self, other: Operand, op_type: str, compute: Callable[..., Any], dtype: ir.DataType | None = None
    ) -> Value:
        right = self.like(other)
        if self.array is not None and right.array is not None and _fits(self.array, right.array):
            dtype = self.dtype if dtype is None else dtype
            return Value(self._builder, array=np.asarray(compute(self.array, right.array)), dtype=dtype)
        return self._builder.emit(op_type, self, right)


def _fits(first: Array, second: Array) -> bool:
    """Whether the result of an operator of two arrays is stored; a larger one is computed when the net runs."""
    try:
        result = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        refuse_shapes(first.shape, second.shape)
    return math.prod(result) <= max(first.size, second.size, MAX_FOLDED)


Operand = Value | float
