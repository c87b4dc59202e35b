"""What Caffe2 requires of operands, checked as far as it is known before the model runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Final

import onnx_ir as ir

from caffe2_frontend.lowering.family import Converter
from caffe2_frontend.lowering.op import Op, Outputs, Value

FLOATS: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
# What kernels that know float alone take; those of GPUs know float16 too.
SINGLE: Final = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
INDICES: Final = (ir.DataType.INT32, ir.DataType.INT64)
# With halves, which Caffe2 computes on GPUs.
REALS: Final = (*FLOATS, ir.DataType.FLOAT16)
NUMBERS: Final = (*REALS, *INDICES)


def require_dtype(op: Op, value: Value, dtypes: Collection[ir.DataType], what: str) -> None:
    """An operand of an element type that Caffe2 has no implementation for is a finding."""
    dtype = op.dtype(value)
    if dtype not in dtypes:
        op.unsupported(f"{what} is {dtype.name}, not {' or '.join(d.name for d in dtypes)}", code="invalid-operands")


def require_rank(op: Op, value: Value, rank: int, what: str) -> None:
    """An operand of another rank is a finding."""
    if op.rank(value) != rank:
        op.unsupported(f"{what} has rank {op.rank(value)}, not {rank}", code="invalid-operands")


def require_rank_from(op: Op, value: Value, least: int, what: str) -> None:
    """An operand of a lower rank than ``least`` is a finding."""
    if op.rank(value) < least:
        op.unsupported(f"{what} has rank {op.rank(value)}, at least {least} is needed", code="invalid-operands")


def require_equal(op: Op, first: int | None, second: int | None, what: str) -> None:
    """Two sizes that both are known and differ are a finding."""
    if first is not None and second is not None and first != second:
        op.unsupported(f"{what}: {first} and {second} must be the same", code="invalid-operands")


def require_groups(op: Op, count: int | None, group: int, what: str) -> None:
    """Refuse the argument ``group`` unless it is positive and divides the number of ``what``, where that is known."""
    if group < 1:
        op.unsupported(f"group must be positive, not {group}", code="invalid-operands")
    if count is not None and count % group:
        op.unsupported(f"the number of {what} ({count}) must be a multiple of group ({group})", code="invalid-operands")


def takes(dtypes: Collection[ir.DataType], *positions: int) -> Callable[[Converter], Converter]:
    """A converter whose operands at these positions, where they are given, must be of one of these element types."""

    def checked(converter: Converter) -> Converter:
        @functools.wraps(converter)
        def convert(op: Op) -> Outputs:
            for position in positions:
                if op.has_input(position):
                    require_dtype(op, op.input(position), dtypes, f"input {position}")
            return converter(op)

        return convert

    return checked
