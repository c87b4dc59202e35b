"""Means over neighbouring channels of images."""

from __future__ import annotations

from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.shapes import product, reshape, sizes
from caffe2_frontend.lowering.op import Op, Value


def mean_over_channels(op: Op, x: Value, width: int, before: int, *, last: bool = False) -> Value:
    """Average ``x`` over windows of ``width`` channels, of which ``before`` precede each one; [x].

    Channels beyond the ends count as zeros. The images are [N, C, H, W], or [N, H, W, C] if ``last``. This is a pooling
    of images of one channel, [N, 1, C, H * W] or [N, 1, H * W, C].
    """
    n, *rest = sizes(op, x)
    dims = [n, 1, product(op, rest[:-1]), rest[-1]] if last else [n, 1, rest[0], product(op, rest[1:])]
    after = width - 1 - before
    mean = op.emit(
        "AveragePool",
        reshape(op, x, dims),
        kernel_shape=[1, width] if last else [width, 1],
        pads=[0, before, 0, after] if last else [before, 0, after, 0],
        count_include_pad=1,
    )
    return reshape_like(op, mean, x)
