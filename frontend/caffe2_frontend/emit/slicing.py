"""Splitting into equal parts, and ranges of Caffe2's Slice.

Negative indices of a range count from after the end: ``i`` means ``size + 1 + i``.
"""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_frontend.lowering.op import Op, Value


def split_equally(op: Op, x: Value, axis: int, count: int) -> tuple[Value, ...]:
    """Split ``x`` along ``axis`` into ``count`` parts of one size."""
    return (x,) if count == 1 else op.emit("Split", x, axis=axis, num_outputs=count, outputs=count)


def require_ranges(op: Op, x: Value, starts: Sequence[int], ends: Sequence[int]) -> None:
    """Refuse more ranges than X has axes, and what :func:`_require_one_axis` refuses."""
    if len(starts) != len(ends) or len(starts) > op.rank(x):
        op.unsupported(
            f"starts {list(starts)} and ends {list(ends)} must have equally many elements, at most {op.rank(x)}",
            code="invalid-argument",
        )
    if 0 not in op.shape(x):
        _require_one_axis(op, x, starts, ends)


def _require_one_axis(op: Op, x: Value, starts: Sequence[int], ends: Sequence[int]) -> None:
    """Refuse, where dims are known, ranges that end before they start, and more than one sliced axis."""
    dims = [op.static_dim(x, i) for i in range(len(starts))]
    sliced = []
    for axis, (dim, *bounds) in enumerate(zip(dims, starts, ends, strict=True)):
        if dim is None:
            continue
        start, end = (min(dim, v + dim + 1 if v < 0 else v) for v in bounds)
        if not 0 <= start <= end:
            op.unsupported(f"range {bounds} must lie within axis {axis} of size {dim}", code="invalid-operands")
        if (start, end) != (0, dim):
            sliced.append(axis)
    if len(sliced) > 1 and all(isinstance(d, int) for d in op.shape(x)):
        op.unsupported(f"at most one axis can be sliced, not axes {sliced}", code="invalid-operands")
