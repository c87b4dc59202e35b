"""ATen operators that change the element type, nothing, or every element to one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.aten.operands import SCALAR_TYPES, name_of, number, scalar_type

family = Family("aten conversion")


@family.converts("type_as")
def convert_type_as(op: Op) -> Value:
    """aten::type_as(self, other)."""
    return cast(op, op.input(0), op.dtype(op.input(1)))


@family.converts("to")
def convert_to(op: Op) -> Value:
    """aten::to(self[, other]; dtype, layout, device, non_blocking, copy, memory_format)."""
    op.args.ignore("layout", "device", "non_blocking", "copy", "memory_format", "pin_memory")
    x = op.input(0)
    return cast(op, x, op.dtype(op.input(1)) if op.has_input(1) else scalar_type(op, op.dtype(x)))


_CASTS: Final = {
    "_cast_Byte": 0, "_cast_Char": 1, "_cast_Short": 2, "_cast_Int": 3, "_cast_Long": 4, "_cast_Half": 5,
    "_cast_Float": 6, "_cast_Double": 7,
}  # fmt: skip


@family.converts(*_CASTS)
def cast_to(op: Op) -> Value:
    """aten::_cast_Byte | _cast_Char | ... | _cast_Double(self; non_blocking)."""
    op.args.ignore("non_blocking")
    return cast(op, op.input(0), SCALAR_TYPES[_CASTS[name_of(op)]])


@family.converts("alias", "clone", "contiguous", "detach", "dropout", "feature_dropout", "alpha_dropout")
def unchanged(op: Op) -> Value:
    """aten::alias | clone | contiguous | detach | dropout(self; p, train=0): ``self``."""
    op.args.ignore("memory_format", "p")
    if op.args.flag("train", default=False):
        op.unsupported("train must be 0: the result is random in training", hint="export the model for inference")
    return op.emit("Identity", op.input(0))


def _filled(op: Op, value: float) -> Value:
    op.args.ignore("layout", "device", "pin_memory", "memory_format")
    x = op.input(0)
    return op.emit("Expand", op.const(value, scalar_type(op, op.dtype(x))), op.emit("Shape", x), shape=op.shape(x))


_FILLS: Final[dict[str, Callable[[Op], float]]] = {
    "zeros_like": lambda _: 0,
    "ones_like": lambda _: 1,
    "full_like": lambda op: number(op, "fill_value"),
}


@family.converts(*_FILLS)
def filled_like(op: Op) -> Value:
    """aten::zeros_like | ones_like | full_like(self; fill_value, dtype, ...)."""
    return _filled(op, _FILLS[name_of(op)](op))
