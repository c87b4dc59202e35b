"""Discrete Fourier transforms, as products with matrices of cosines and sines.

X[k] = sum of x[n] * exp(-2 pi i n k / N). With real and imaginary parts a + i b of x, and c and s the cosine and sine
of 2 pi n k / N: the real part is a c + b s, the imaginary part b c - a s. The inverse has +i and a factor of 1 / N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.masks import axis_mask, collapse_around_axis, non_negative_axes
from caffe2_backend.emit.selection import along_last, concat, element, gather, slice_axis
from caffe2_backend.emit.shapes import arange, dim_of, dims_of, reshape, reshape_exactly, size_list
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_backend.ops.nn.linear import matrix_product
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT64

family = Family("fourier")


@family.converts("DFT")
def dft(op: Op) -> Value:
    """``DFT(input, dft_length=None, axis=-2; inverse=0, onesided=0) -> output``: BatchMatMul with a known matrix.

    Where the axis is computed at run time, the axes before it, and those behind it, are made one.
    """
    inverse, onesided = op.args.flag("inverse", default=False), op.args.flag("onesided", default=False)
    x = op.require(op.input(0), FLOAT, DOUBLE)
    rank = op.rank(x)
    given, operand = op.args.integer("axis", default=-2), op.optional(2)
    known = given if operand is None else op.known_number(operand)
    is_complex = _is_complex(op, x, rank - 1)

    def along(signal: Value, axis: int, rank: int) -> Value:
        size = dim_of(op, signal, axis) if known is None else dims_of(op, signal)[axis]
        natural = (size - 1) * 2 if inverse and onesided else size
        length = element(op, op.input(1), 0).cast(INT64) if op.has_input(1) else natural
        return transform(op, signal, axis, rank, Transform(size, length, is_complex, inverse, onesided))

    if known is not None:
        return along(x, op.axis(int(known), rank), rank)
    assert operand is not None
    axis = non_negative_axes(op, operand, rank)
    parts = is_complex + 1
    made = along(reshape(op, collapse_around_axis(op, x, axis, rank), [0, 0, -1, parts]), 1, 4)
    mask = axis_mask(op, axis, rank)
    turned = op.emit("Where", mask, op.const(np.ones(rank), INT64) * dim_of(op, made, 1), op.emit("Shape", x))
    return reshape_exactly(op, made, size_list(op, [slice_axis(op, turned, 0, 0, rank - 1), dim_of(op, made, 3)]))


def _is_complex(op: Op, signal: Value, axis: int) -> bool:
    parts = op.static_dim(signal, axis)
    if parts is None:
        op.needs_shape("the last dim of the signal must be static: 1 (real) or 2 (complex)")
    return parts == 2


@dataclass(frozen=True)
class Transform:
    """A transform of an axis of ``size`` elements, cropped or filled with zeros to ``length``.

    One that is ``onesided`` gives the first length // 2 + 1 frequencies only; its inverse takes those and gives real
    numbers.
    """

    size: Value
    length: Value
    is_complex: bool
    inverse: bool
    onesided: bool

    @property
    def taken(self) -> Value:
        """The largest number of elements that the transform reads."""
        return self.length // 2 + 1 if self.inverse and self.onesided else self.length

    def matrices(self, op: Op, dtype: ir.DataType) -> tuple[Value, Value]:
        """Return the cosines and the sines, [elements read, elements given], with the factors of the inverse."""
        rows = reshape(op, arange(op, self.size.minimum(self.taken)), [-1, 1])
        given = self.length // 2 + 1 if self.onesided and not self.inverse else self.length
        columns = reshape(op, arange(op, given), [1, -1])
        turns = rows * columns % self.length  # the angle in units of 2 pi / length, below one turn
        factor = op.const(1.0, dtype)
        if self.inverse:
            factor = factor / self.length.cast(dtype)
        if self.inverse and self.onesided:
            # frequency k stands for length - k too, except 0 and, of an even length, length / 2
            is_single = (rows < 1).cast(dtype) + (rows * 2 >= self.length).cast(dtype)
            factor = (2.0 - is_single) * factor
        length = self.length.array
        if turns.array is not None and length is not None:
            angles = op.const(turns.array * (2 * math.pi / length), DOUBLE)
            cosines, sines = angles.cosine().cast(dtype), angles.sine().cast(dtype)
        else:
            if dtype != FLOAT:
                op.unsupported("Caffe2 has no Cos and Sin of double", code="dtype")
            cosines, sines = (gather(op, table, 0, turns) for table in _tables(op, self.length))
        return cosines * factor, sines * factor


def _tables(op: Op, length: Value) -> tuple[Value, Value]:
    """Return the cosine and the sine of k turns / length, k = 0 ... length - 1, float.

    Each is the sine of an integer times pi / (2 length), of at most pi / 2, so that zeros and ones are exact. The
    integers follow from sin(a) = -sin(2 pi - a) = sin(pi - a) and cos(a) = sin(pi / 2 - a).
    """
    steps = arange(op, length)
    is_behind = steps * 2 > length
    half = (length - steps).select(steps, is_behind)  # the angle, or 2 pi less the angle: at most pi
    sign = 1 - is_behind.cast(INT64) * 2
    unit = op.const(math.pi / 2, FLOAT) / length.cast(FLOAT)
    cosines, sines = length - half * 4, (half * 4).minimum(length * 2 - half * 4) * sign
    return (cosines.cast(FLOAT) * unit).sine(), (sines.cast(FLOAT) * unit).sine()


def transform(op: Op, signal: Value, axis: int, rank: int, how: Transform) -> Value:
    """Return a signal of ``rank`` dims, the last of which is its real part, or real and imaginary part, transformed."""
    cosines, sines = how.matrices(op, signal.dtype)
    taken, size = how.taken, how.size
    if taken.integer is None or size.integer is None or taken.integer < size.integer:
        signal = gather(op, signal, axis, arange(op, size.minimum(taken)))
    last = rank - 1
    parts = [op.emit("Squeeze", slice_axis(op, signal, last, i, i + 1), dims=[last]) for i in range(how.is_complex + 1)]

    def times(part: Value, matrix: Value) -> Value:
        return along_last(op, part, axis, rank - 1, lambda rows: matrix_product(op, rows, matrix, (rank - 1, 2)))

    real = times(parts[0], cosines)
    if how.is_complex:
        other = times(parts[1], sines)
        real = real - other if how.inverse else real + other
    made = op.emit("ExpandDims", real, dims=[last])
    if how.inverse and how.onesided:
        return made
    turned = times(parts[0], sines)
    if how.is_complex:
        own = times(parts[1], cosines)
        imaginary = own + turned if how.inverse else own - turned
    else:
        imaginary = turned if how.inverse else -turned
    return concat(op, [made, op.emit("ExpandDims", imaginary, dims=[last])], last)


@family.converts("STFT")
def stft(op: Op) -> Value:
    """``STFT(signal, frame_step, window=None, frame_length=None; onesided=1) -> output``: a transform of each frame.

    The frames are [batch, frames, frame_length, 1 or 2]. A signal of rank 2 is real, as PyTorch exports it.
    """
    onesided = op.args.flag("onesided", default=True)
    x = op.require(op.input(0), FLOAT, DOUBLE)
    is_real = op.rank(x) == 2
    if is_real:
        x = op.emit("ExpandDims", x, dims=[2])
    elif op.rank(x) != 3:
        op.unsupported(f"the signal must have rank 2 or 3, not {op.rank(x)}", code="invalid-operands")
    window, frame_length = op.optional(2), op.optional(3)
    if frame_length is not None:
        length = element(op, frame_length, 0).cast(INT64)
    elif window is not None:
        length = dims_of(op, window)[0]
    else:
        op.unsupported("STFT needs a window or a frame_length", code="missing-input")
    size = dims_of(op, op.input(0))[1]
    step = element(op, op.input(1), 0).cast(INT64)
    count = (size - length) // step + 1
    indices = reshape(op, arange(op, count), [-1, 1]) * step + reshape(op, arange(op, length), [1, -1])
    frames = gather(op, x, 1, indices)
    if window is not None:
        frames = frames * op.require(window, x.dtype).reshape([-1, 1])
    is_complex = not is_real and _is_complex(op, x, 2)
    how = Transform(length, length, is_complex, inverse=False, onesided=onesided)
    return transform(op, frames, 2, 4, how)
