"""Fourier transforms, as products with matrices of cosines and sines."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.shapes import along_last, concat, cut, dim_parts
from caffe2_backend.emit.value import Number, count, entry, gathered, known, steps
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import DOUBLE, FLOAT, INT64, Op
from caffe2_backend.ops.nn.linear import matrix_product

family = Family("signal")


@family.converts("DFT")
def fourier(op: Op) -> str:
    inverse, onesided = bool(op.integer("inverse", 0)), bool(op.integer("onesided", 0))
    op.require(0, FLOAT, DOUBLE)
    rank = op.rank()
    given = op.integer("axis", -2)
    axis = op.axis(int(op.constant(2, "the axis").item()) if op.has_input(2) else given, rank)
    size = count(op, dim_parts(op, 0)[axis])
    whole = (size - 1) * 2 if inverse and onesided else size
    length = entry(op, 1, 0, INT64) if op.has_input(1) else whole
    parts = op.dim(rank - 1)
    if parts is None:
        op.unsupported("whether the signal is complex is only known at run time", code="needs-shape")
    return transformed(op, op.input(0), axis, rank, Transform(size, length, parts == 2, inverse, onesided))


@dataclass(frozen=True)
class Transform:
    """A transform: of ``size`` numbers along an axis, cut off or filled with zeros to ``length``.

    One that is ``onesided`` gives the first half of the frequencies, or, inverse, takes it and gives real numbers.
    """

    size: Number
    length: Number
    complex: bool
    inverse: bool
    onesided: bool

    def matrices(self, op: Op, dtype: ir.DataType) -> tuple[str, str]:
        """The cosines and the sines, [what is taken, what is given], with the factors of the inverse."""
        half = self.length // 2 + 1
        taken = self.size.at_most(half if self.inverse and self.onesided else self.length)
        rows = steps(op, taken).reshape(-1, 1)
        columns = steps(op, half if self.onesided and not self.inverse else self.length).reshape(1, -1)
        turns = rows * columns % self.length
        factor = known(op, 1.0, dtype)
        if self.inverse:
            factor = factor / self.length.cast(dtype)
        if self.inverse and self.onesided:
            alone = (rows < 1).cast(dtype) + (rows * 2 >= self.length).cast(dtype)
            factor = (2.0 - alone) * factor  # every other frequency stands for its mirror image too
        if turns.known is not None and self.length.known is not None:
            angles = turns.known * (2 * math.pi / self.length.known)
            cosines, sines = known(op, np.cos(angles), dtype), known(op, np.sin(angles), dtype)
        else:
            if dtype != FLOAT:
                op.unsupported("Caffe2 has no cosine of double", code="dtype")
            angle = steps(op, self.length).cast(FLOAT) * (2 * math.pi) / self.length.cast(FLOAT)
            cosines = Number(op, gathered(op, angle.cosine().blob, 0, turns), FLOAT)
            sines = Number(op, gathered(op, angle.sine().blob, 0, turns), FLOAT)
        return (cosines * factor).blob, (sines * factor).blob


def transformed(op: Op, blob: str, axis: int, rank: int, transform: Transform) -> str:
    """A blob of ``rank`` dims, the last of which is real and imaginary parts, or the real alone, transformed."""
    dtype = op.dtype()
    cosines, sines = transform.matrices(op, dtype)
    taken = transform.length // 2 + 1 if transform.inverse and transform.onesided else transform.length
    if taken.known is None or transform.size.known is None or taken.known < transform.size.known:
        blob = gathered(op, blob, axis, steps(op, transform.size.at_most(taken)))
    parts = [
        op.emit("Squeeze", cut(op, blob, rank - 1, i, i + 1), dims=[rank - 1]) for i in range(transform.complex + 1)
    ]

    def times(part: str, matrix: str) -> str:
        return along_last(op, part, axis, rank - 1, lambda b: matrix_product(op, b, matrix, dtype, (rank - 1, 2)))

    sign = "Add" if transform.inverse else "Sub"
    real = times(parts[0], cosines)
    if transform.complex:
        other = times(parts[1], sines)
        real = op.emit("Sub" if transform.inverse else "Add", real, other)
    made = op.emit("ExpandDims", real, dims=[rank - 1])
    if transform.inverse and transform.onesided:
        return made
    turned = times(parts[0], sines)
    if transform.complex:
        imaginary = op.emit(sign, times(parts[1], cosines), turned)
    else:
        imaginary = turned if transform.inverse else op.emit("Negative", turned)
    return concat(op, [made, op.emit("ExpandDims", imaginary, dims=[rank - 1])], rank - 1)


@family.converts("STFT")
def short_time_fourier(op: Op) -> str:
    """Frames [batch, frames, length, parts] of the signal, times the window, each transformed."""
    onesided = bool(op.integer("onesided", 1))
    op.require(0, FLOAT, DOUBLE)
    if op.rank() != 3:
        op.unsupported(f"a signal of rank {op.rank()}", code="invalid-operands")
    if op.has_input(3):
        length = entry(op, 3, 0, INT64)
    elif op.has_input(2):
        length = count(op, dim_parts(op, 2)[0])
    else:
        op.unsupported("neither a window nor the length of a frame", code="missing-input")
    _, size, _ = dim_parts(op, 0)
    step = entry(op, 1, 0, INT64)
    frames = (count(op, size) - length) // step + 1
    places = steps(op, frames).reshape(-1, 1) * step + steps(op, length).reshape(1, -1)
    blob = gathered(op, op.input(0), 1, places)
    if op.has_input(2):
        op.require(2, op.dtype())
        blob = op.emit("Mul", blob, op.reshape(op.input(2), [-1, 1]))
    parts = op.dim(2)
    if parts is None:
        op.unsupported("whether the signal is complex is only known at run time", code="needs-shape")
    transform = Transform(length, length, complex=parts == 2, inverse=False, onesided=onesided)
    return transformed(op, blob, 2, 4, transform)
