"""Scales and shifts of normalized tensors: one element per channel, or one per element of a layer."""

from __future__ import annotations

from caffe2_frontend.emit.operand_checks import require_equal
from caffe2_frontend.emit.shapes import as_vector, known_size, product, reshape, sizes
from caffe2_frontend.lowering.op import Op, Value


def per_channel(op: Op, x: Value, index: int, channel: int = 1) -> Value:
    """Return operand ``index``, which holds one element per channel (axis ``channel``) of ``x``, as a vector."""
    v = op.input(index)
    require_equal(op, known_size(op, v), op.static_dim(x, channel), f"elements of input {index} and channels")
    return as_vector(op, v)


def as_tail(op: Op, v: Value, x: Value, axis: int) -> Value:
    """Reshape ``v`` to the dims of ``x`` from ``axis`` on."""
    tail = op.shape(x)[axis:]
    elements = product(op, sizes(op, x, axis)) if all(isinstance(d, int) for d in tail) else None
    require_equal(
        op, known_size(op, v), elements if isinstance(elements, int) else None, "elements per layer and weights"
    )
    if op.rank(v) == len(tail) and (len(tail) == 1 or list(op.shape(v)) == list(tail)):
        return v
    return reshape(op, v, sizes(op, x, axis))
