"""Operands that a kernel of Caffe2 takes for one number without looking at their size: it reads their first element."""

from __future__ import annotations

import math

import numpy as np

from caffe2_frontend.emit.arithmetic import reshape_like, scalar
from caffe2_frontend.emit.shapes import END, as_vector, unsqueeze
from caffe2_frontend.lowering.op import Op, Value


def first_element(op: Op, x: Value) -> Value:
    """Return the first element of ``x`` in memory as a scalar []; 0 without one: Caffe2 computes nothing from it."""
    if _is_single(op, x):
        return scalar(op, x)
    return op.emit("Gather", op.emit("Concat", as_vector(op, x), op.const([0], x), axis=0), op.const(0, np.int64))


def with_first_element(op: Op, x: Value, first: Value) -> Value:
    """Return ``x`` with another first element, a scalar []."""
    if _is_single(op, x):
        return reshape_like(op, first, x)
    rest = op.emit("Slice", as_vector(op, x), *(op.const([value], np.int64) for value in (1, END, 0)))
    return reshape_like(op, op.emit("Concat", unsqueeze(op, first, [0]), rest, axis=0), x)


def _is_single(op: Op, x: Value) -> bool:
    """Whether ``x`` is known to have one element."""
    dims = op.shape(x)
    return dims.is_static() and math.prod(dims.numpy()) == 1
