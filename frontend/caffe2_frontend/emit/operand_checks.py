"""Caffe2's requirements on operands, checked as far as types and dims are known at conversion.

``what`` names the operand in the message: "X must have rank 2, not 3".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Final

import onnx_ir as ir

from caffe2_frontend.interop.input_hint import input_hint
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.dim_facts import as_dim
from caffe2_frontend.lowering.family import Converter
from caffe2_frontend.lowering.op import Op, Outputs, Value

FLOATS: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
# Caffe2's CPU kernel takes float alone, its GPU kernel float16 too.
SINGLE: Final = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
INDICES: Final = (ir.DataType.INT32, ir.DataType.INT64)
# With float16, which Caffe2 computes on GPUs.
REALS: Final = (*FLOATS, ir.DataType.FLOAT16)
NUMBERS: Final = (*REALS, *INDICES)


def require_dtype(op: Op, value: Value, dtypes: Collection[ir.DataType], what: str) -> None:
    """Refuse an operand of an element type that Caffe2 has no kernel for, and record the types that it may have."""
    for index, name in enumerate(op.view.inputs):
        if op.scope.find(name) is value:
            op.lowering.accepted.setdefault((op.type, index), set(dtypes)).intersection_update(dtypes)
    dtype = op.dtype(value)
    if dtype not in dtypes:
        reason = f"{what} must be {' or '.join(d.name for d in dtypes)}, not {dtype.name}"
        op.unsupported(reason, _input_type_hint(op, value, next(iter(dtypes))), "invalid-operands")


def _input_type_hint(op: Op, value: Value, dtype: ir.DataType) -> str:
    """Return what to type where an operand is an input of the model; empty where it is another value."""
    if not is_input(op, value) or value.name is None or value.shape is None:
        return ""
    shape = tuple(as_dim(dim) for dim in value.shape)
    return f"describe the input, such as {input_hint(value.name, TensorInfo(dtype, shape))}"


def is_input(op: Op, value: Value) -> bool:
    """Whether a value is an input of the model."""
    return op.scope.outermost and value.producer() is None and value.const_value is None


def require_rank(op: Op, value: Value, rank: int, what: str) -> None:
    """Refuse an operand of another rank."""
    if op.rank(value) != rank:
        op.unsupported(f"{what} must have rank {rank}, not {op.rank(value)}", code="invalid-operands")


def require_min_rank(op: Op, value: Value, minimum: int, what: str) -> None:
    """Refuse an operand of a lower rank than ``minimum``."""
    if op.rank(value) < minimum:
        op.unsupported(f"{what} must have at least rank {minimum}, not {op.rank(value)}", code="invalid-operands")


def require_equal(op: Op, first: int | None, second: int | None, what: str) -> None:
    """Refuse two sizes that are both known and differ; ``what`` names both of them: "segment ids and rows"."""
    if first is not None and second is not None and first != second:
        op.unsupported(f"{what} must agree: {first} and {second} given", code="invalid-operands")


def require_groups(op: Op, count: int | None, group: int, what: str) -> None:
    """Refuse the argument ``group`` unless it is positive and divides the number of ``what``, where that is known."""
    if group < 1:
        op.unsupported(f"group must be positive, not {group}", code="invalid-operands")
    if count is not None and count % group:
        op.unsupported(f"the number of {what} ({count}) must be a multiple of group ({group})", code="invalid-operands")


def require_dim(op: Op, value: Value, axis: int, expected: int, what: str) -> None:
    """Refuse an operand whose size along ``axis`` is known and not ``expected``."""
    dim = op.static_dim(value, axis)
    if dim is not None and dim != expected:
        op.unsupported(f"dim {axis} of {what} must be {expected}, not {dim}", code="invalid-operands")


def takes(dtypes: Collection[ir.DataType], *positions: int) -> Callable[[Converter], Converter]:
    """Decorate a converter: its operands at these positions, where given, must have one of these element types."""

    def checked(converter: Converter) -> Converter:
        @functools.wraps(converter)
        def convert(op: Op) -> Outputs:
            for position in positions:
                if op.has_input(position):
                    require_dtype(op, op.input(position), dtypes, f"input {position}")
            return converter(op)

        return convert

    return checked
