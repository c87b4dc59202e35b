"""Storage orders: images with the channels last are transposed, computed with the channels first as in ONNX."""

from __future__ import annotations

from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.shapes import Size, reshape, sizes
from caffe2_frontend.lowering.op import Op, Value

_ORDERS = {"NCHW": False, "nchw": False, "NHWC": True, "nhwc": True}


def channels_last(op: Op, default: str = "NCHW") -> bool:
    """Whether the argument ``order`` is NHWC; refuses an order that is neither NCHW nor NHWC."""
    order = op.args.text("order", default=default)
    if order not in _ORDERS:
        op.unsupported(f"order must be NCHW or NHWC, not {order!r}", code="invalid-argument")
    return _ORDERS[order]


def require_nchw(op: Op, operands: str = "X") -> None:
    """Refuse an ``order`` other than NCHW; the hint names the operands to convert."""
    if channels_last(op):
        op.unsupported("order must be NCHW", hint=f"convert {operands} with NHWC2NCHW", code="invalid-argument")


def move_last(op: Op, x: Value, *, when: bool = True) -> Value:
    """Transpose ``x`` [N, C, ...] to [N, ..., C] if ``when``."""
    return _transpose(op, x, [0, *range(2, op.rank(x)), 1]) if when else x


def move_first(op: Op, x: Value, *, when: bool = True) -> Value:
    """Transpose ``x`` [N, ..., C] to [N, C, ...] if ``when``."""
    return _transpose(op, x, [0, op.rank(x) - 1, *range(1, op.rank(x) - 1)]) if when else x


def _transpose(op: Op, x: Value, perm: list[int]) -> Value:
    return x if perm == sorted(perm) else op.emit("Transpose", x, perm=perm)


def swap_factors(op: Op, x: Value, axis: int, first: Size, second: Size) -> Value:
    """Transpose ``axis`` of ``x``, taken as [``first``, ``second``], to [``second``, ``first``]."""
    dims = sizes(op, x)
    factors = reshape(op, x, [*dims[:axis], first, second, *dims[axis + 1 :]])
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(dims) + 1)]
    return reshape_like(op, op.emit("Transpose", factors, perm=perm), x)
