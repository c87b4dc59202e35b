"""Caffe2's requirements on the weight and bias of a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2_frontend.emit.operand_checks import SINGLE, require_dtype, require_equal, require_groups, require_rank
from caffe2_frontend.emit.windows.window import Window
from caffe2_frontend.lowering.op import Op, Value


def check_weight(op: Op, window: Window, w: Value, x: Value, group: int, bias: Value | None) -> None:
    """Require a weight [M, C / group, *kernel] and a bias [M] that fit the window and the image [N, C, ...]."""
    require_dtype(op, x, SINGLE, "the image")
    check_kernel(op, window, w)
    filters, depth = op.static_dim(w, 0), op.static_dim(w, 1)
    require_groups(op, filters, group, "filters")
    channels = None if depth is None else depth * group
    require_equal(op, op.static_dim(x, 1), channels, "channels of the image and of the weight")
    if bias is not None:
        require_rank(op, bias, 1, "the bias")
        require_equal(op, filters, op.static_dim(bias, 0), "filters and biases")


def check_kernel(op: Op, window: Window, w: Value) -> None:
    """Require that the weight [.., .., *kernel] has the window's kernel sizes."""
    kernel: Sequence[Any] = op.shape(w)[2:]
    if len(kernel) != len(window.kernel):
        op.unsupported(
            f"the weight must have {len(window.kernel)} spatial dims, not {len(kernel)}", code="invalid-operands"
        )
    for dim, k in zip(kernel, window.kernel, strict=True):
        require_equal(op, dim if isinstance(dim, int) else None, k, "kernel sizes of the weight and the arguments")


def check_local_weight(op: Op, window: Window, w: Value, rank: int, operands: str = "X") -> None:
    """Require that a locally connected layer has one group and a weight [*out, M, C, *kernel] (with order NHWC C last).

    Args:
        op: the operator under conversion.
        window: its window.
        w: the weight.
        rank: the rank of the image.
        operands: the operands to convert, for the hint.
    """
    if op.args.integer("group", default=1) != 1 and not window.channels_last:
        # Caffe2 allocates too little memory for more than one group.
        op.unsupported("group must be 1", hint="split X along the channels and use one LC per group")
    dims = rank - 2
    require_rank(op, w, rank + dims, "the weight")
    if window.channels_last and dims != 2:
        op.unsupported(
            f"order NHWC requires two spatial dims, not {dims}",
            hint=f"convert {operands} with NHWC2NCHW",
            code="invalid-argument",
        )
