"""Images with the channels last that remember themselves with the channels first.

A chain of operators on images [N, H, W, C] is converted to nodes on [N, C, H, W] alone: each result is transposed back
for whoever reads it so, and an operator of the chain reads what was transposed. The transposed values that remain
without readers are removed as dead code. Both have the same quantization.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from caffe2_frontend.emit.int8_values import find_quantization, mark_quantized
from caffe2_frontend.emit.layout import move_first, move_last
from caffe2_frontend.lowering.op import Op, Value

_META: Final = "channels_first"


def known_planes(x: Value) -> Value | None:
    """Return the value [N, C, ...] of which ``x`` [N, ..., C] is the transpose; None if it is not known as one."""
    planes: Value | None = x.meta.get(_META)
    return planes


def to_planes(op: Op, x: Value, *, when: bool = True) -> Value:
    """Return ``x`` [N, ..., C] as [N, C, ...] if ``when``, without a node where ``x`` was transposed from that."""
    if not when:
        return x
    planes = known_planes(x)
    if planes is None:
        planes = move_first(op, x)
    else:
        op.looks_behind(x)
    how = find_quantization(x)
    return planes if how is None else mark_quantized(planes, how)


def from_planes(op: Op, planes: Value, *, when: bool = True) -> Value:
    """Return ``planes`` [N, C, ...] as [N, ..., C] if ``when``; :func:`to_planes` of the result is ``planes`` again."""
    if not when:
        return planes
    x, how = move_last(op, planes), find_quantization(planes)
    x.meta[_META] = planes
    return x if how is None else mark_quantized(x, how)


def elementwise(op: Op, compute: Callable[..., Value], *operands: Value) -> Value:
    """Apply a function of operands of one shape, with the channels first if any operand is known so."""
    if all(known_planes(x) is None for x in operands):
        return compute(*operands)
    return from_planes(op, compute(*(to_planes(op, x) for x in operands)))
