"""Storage orders: operators that take images with the channels last are computed with the channels first."""

from __future__ import annotations

from caffe2_frontend.lowering.op import Op, Value

_ORDERS = {"NCHW": False, "nchw": False, "NHWC": True, "nhwc": True}


def channels_last(op: Op, default: str = "NCHW") -> bool:
    """Whether the operator's ``order`` puts the channels last; an order of another name is a finding."""
    order = op.args.text("order", default=default)
    if order not in _ORDERS:
        op.unsupported(f"order {order!r} is neither NCHW nor NHWC", code="invalid-argument")
    return _ORDERS[order]


def move_last(op: Op, x: Value, *, when: bool = True) -> Value:
    """``x`` [N, C, ...] as [N, ..., C], where ``when``."""
    return _permuted(op, x, [0, *range(2, op.rank(x)), 1]) if when else x


def move_first(op: Op, x: Value, *, when: bool = True) -> Value:
    """``x`` [N, ..., C] as [N, C, ...], where ``when``."""
    return _permuted(op, x, [0, op.rank(x) - 1, *range(1, op.rank(x) - 1)]) if when else x


def _permuted(op: Op, x: Value, perm: list[int]) -> Value:
    return x if perm == sorted(perm) else op.emit("Transpose", x, perm=perm)
