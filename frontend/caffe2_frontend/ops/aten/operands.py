"""Arguments and element types of ATen operators: scalars, lists of dims, and PyTorch's type promotion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.lowering.op import Op, Value

# PyTorch's numbers of element types (c10::ScalarType).
SCALAR_TYPES: Final = {
    0: ir.DataType.UINT8,
    1: ir.DataType.INT8,
    2: ir.DataType.INT16,
    3: ir.DataType.INT32,
    4: ir.DataType.INT64,
    5: ir.DataType.FLOAT16,
    6: ir.DataType.FLOAT,
    7: ir.DataType.DOUBLE,
    11: ir.DataType.BOOL,
}
# The element types of tensors, the usual one first.
TENSOR_TYPES: Final = (ir.DataType.FLOAT, *(dtype for dtype in SCALAR_TYPES.values() if dtype != ir.DataType.FLOAT))
_ORDER: Final = (
    ir.DataType.BOOL,
    ir.DataType.UINT8,
    ir.DataType.INT8,
    ir.DataType.INT16,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.FLOAT16,
    ir.DataType.FLOAT,
    ir.DataType.DOUBLE,
)
_UNSIGNED_AND_SIGNED: Final = frozenset({ir.DataType.UINT8, ir.DataType.INT8})


def name_of(op: Op) -> str:
    """Return the name of the ATen operator."""
    return op.args.text("operator").removeprefix("aten::")


def number(op: Op, name: str, default: float | None = None) -> float:
    """Return an argument that is a Scalar: an int where it is stored as an integer, else a float."""
    arg = op.args.raw(name)
    if arg is None and default is not None:
        return default
    if arg is not None and arg.HasField("i"):
        return int(arg.i)
    return op.args.number(name)


def constant(op: Op, name: str, like: Value) -> Value:
    """Return an argument that is a Scalar, in the element type of ``like``: integers lose fractions, and must fit."""
    value, dtype = number(op, name), op.dtype(like).numpy()
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not (math.isfinite(value) and limits.min <= int(value) <= limits.max):
            op.unsupported(f"argument {name!r} must fit {dtype}, the operand's type: {value}", code="invalid-argument")
        value = int(value)
    return op.const(value, like)


def axis_list(op: Op, name: str = "dim") -> tuple[int, ...] | None:
    """Return an argument that is a list of integers; None if it is absent.

    An integer that is not a list of one is refused: Caffe2 reads an empty list.
    """
    return None if op.args.raw(name) is None else op.args.integers(name)


def reduced_axes(op: Op, x: Value, name: str = "dim", *, is_one: bool = False) -> list[int]:
    """Return the axes that a reduction reduces, sorted: all without the argument, or with an empty list.

    The argument is a list, or one integer where ``is_one``.
    """
    rank = op.rank(x)
    axes = [op.args.integer(name)] if is_one and name in op.args else axis_list(op, name)
    if rank == 0:
        return []
    return sorted({op.axis(axis, rank) for axis in axes}) if axes else list(range(rank))


def is_integral(dtype: ir.DataType) -> bool:
    """Whether elements are integers or booleans."""
    return not dtype.is_floating_point()


def as_float(op: Op, x: Value) -> Value:
    """Return ``x``, integers and booleans as float: what functions of real numbers compute with."""
    return cast(op, x, ir.DataType.FLOAT) if is_integral(op.dtype(x)) else x


def as_mask(op: Op, x: Value, *, of_integers: bool = False) -> Value:
    """Return a mask of booleans, or of bytes that are not zero; those of integers are read as their lowest bytes."""
    dtype = op.dtype(x)
    if of_integers and is_integral(dtype) and dtype != ir.DataType.BOOL:
        x = cast(op, x, ir.DataType.UINT8)
    elif dtype not in (ir.DataType.BOOL, ir.DataType.UINT8):
        op.unsupported(f"a mask must be bool or uint8, not {dtype.name.lower()}", code="dtype")
    return cast(op, x, ir.DataType.BOOL)


def as_index(op: Op, x: Value) -> Value:
    """Return ``x`` as int64."""
    return cast(op, x, ir.DataType.INT64)


def promoted(op: Op, *values: Value) -> list[Value]:
    """Return the operands, cast to the element type of their result.

    As in PyTorch, scalars (rank 0) count only if their category (bool, integer, float) is higher than that of all
    tensors with dims.
    """
    dims = [op.dtype(v) for v in values if op.rank(v) > 0]
    scalars = [op.dtype(v) for v in values if op.rank(v) == 0]
    if not dims or not scalars:
        result = _promote(dims or scalars)
    else:
        result, other = _promote(dims), _promote(scalars)
        if _category(other) > _category(result):
            result = _promote([result, other])
    return [cast(op, value, result) for value in values]


def with_number(op: Op, x: Value, value: float) -> tuple[Value, Value]:
    """Return ``x`` and a number as operands of one type: that of ``x``, unless the number's category is higher."""
    if isinstance(value, float) and is_integral(op.dtype(x)):
        x = cast(op, x, ir.DataType.FLOAT)
    elif op.dtype(x) == ir.DataType.BOOL:
        x = cast(op, x, ir.DataType.INT64)
    return x, op.const(value, x)


def _promote(dtypes: Sequence[ir.DataType]) -> ir.DataType:
    return reduce(_promote_two, dtypes)


def _promote_two(a: ir.DataType, b: ir.DataType) -> ir.DataType:
    if {a, b} == _UNSIGNED_AND_SIGNED:
        return ir.DataType.INT16
    return max(a, b, key=_ORDER.index)


def _category(dtype: ir.DataType) -> int:
    if dtype == ir.DataType.BOOL:
        return 0
    return 2 if dtype.is_floating_point() else 1


def scalar_type(op: Op, default: ir.DataType) -> ir.DataType:
    """Return the element type in the argument ``dtype``."""
    if "dtype" not in op.args:
        return default
    number_of_type = op.args.integer("dtype")
    found = SCALAR_TYPES.get(number_of_type)
    if found is None:
        op.unsupported(f"dtype must be one of {sorted(SCALAR_TYPES)}, not {number_of_type}", code="invalid-argument")
    return found
