"""Gradients of poolings: of the maximum, the mean and the p-norm of a moving window.

<window> in a signature stands for the arguments that emit.windows reads: kernel | kernel_h, kernel_w | kernels, and
likewise stride=1, dilation=1, pad=0 (pad_t, pad_l, pad_b, pad_r | pads), legacy_pad=0 and global_pooling=0.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import binary, div, mul
from caffe2_frontend.emit.layout import move_first, move_last
from caffe2_frontend.emit.operand_checks import SINGLE, require_rank, takes
from caffe2_frontend.emit.shapes import cast, product, sizes, vector
from caffe2_frontend.emit.windows.maxima import max_gradient, where_equal
from caffe2_frontend.emit.windows.pads import pad_image, resolve_pads, unpad_image
from caffe2_frontend.emit.windows.sums import sum_windows
from caffe2_frontend.emit.windows.window import LegacyPad, Window, check_fits, image_rank, read_pooling_window
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("pooling_gradient")


def _operand(op: OpView, _: int) -> TensorInfo:
    """Describe X, Y and dY: float, of the rank that the window's arguments imply."""
    rank = image_rank(op)
    return TensorInfo(ir.DataType.FLOAT, None if rank is None else (None,) * rank)


@family.converts(
    "AveragePoolGradient", "AveragePool1DGradient", "AveragePool2DGradient", "AveragePool3DGradient", expects=_operand
)
@takes(SINGLE, 0, 1, 2)
def average_pool_gradient(op: Op) -> Value:
    """AveragePoolGradient(X, Y, dY; <window>, count_include_pad=0, order="NCHW") -> dX, and likewise for 1D, 2D and 3D.

    The sum, over the windows that cover a pixel, of dY divided by the number of pixels in the window.
    """
    count_pads = op.args.flag("count_include_pad", default=False)
    x, _, dy, window = _operands(op)
    if not window.kernel:
        area = product(op, sizes(op, x, 2))
        share = div(op, dy, area) if isinstance(area, int) else div(op, dy, cast(op, area, op.dtype(dy)))
        dx = op.emit("Expand", share, op.emit("Shape", x), shape=op.shape(x))
    elif count_pads or _is_inside(window):
        dx = sum_windows(op, dy, window, x, 1.0 / prod(window.kernel))
    else:
        dx = sum_windows(op, div(op, dy, _pixel_shares(op, window, x)), window, x, 1.0 / prod(window.kernel))
    return move_last(op, dx, when=window.channels_last)


@family.converts("LpPoolGradient", expects=_operand)
@takes(SINGLE, 0, 1, 2)
def lp_pool_gradient(op: Op) -> Value:
    """LpPoolGradient(X, Y, dY; <window>, p=2.0, order="NCHW") -> dX.

    ``X * |X|^(p - 2)`` times the sum, over the windows that cover a pixel, of ``dY / Y^(p - 1)``.
    """
    p = op.args.number("p", default=2.0)
    require_rank(op, op.input(0), 4, "the image")
    x, y, dy, window = _operands(op)
    if p != 1.0:
        dy = div(op, dy, y if p == 2.0 else binary(op, "Pow", y, p - 1.0))
    sums = sum_windows(op, dy, window, x) if window.kernel else dy
    slope = x if p == 2.0 else mul(op, x, binary(op, "Pow", op.emit("Abs", x), p - 2.0))
    return move_last(op, mul(op, slope, sums), when=window.channels_last)


def _operands(op: Op) -> tuple[Value, Value, Value, Window]:
    """Return the image, the result and its gradient, channels first, and the window."""
    x, y, dy = op.input(0), op.input(1), op.input(2)
    window = read_pooling_window(op, op.rank(x))
    for value, what in ((y, "the result"), (dy, "the gradient of the result")):
        require_rank(op, value, op.rank(x), what)
    x, y, dy = (move_first(op, value, when=window.channels_last) for value in (x, y, dy))
    if window.kernel:
        check_fits(op, window, x)
        window = resolve_pads(op, window, x)
    return x, y, dy, window


def _is_inside(window: Window) -> bool:
    """Whether all windows are known to lie inside of the image."""
    return window.legacy is LegacyPad.NOTSET and max(*window.head, *window.tail) <= 0


def _pixel_shares(op: Op, window: Window, x: Value) -> Value:
    """Return the share of each window that is not padding, [1, 1, *out]."""
    ones = op.emit("Expand", op.const(1.0, x), vector(op, [1, 1, *sizes(op, x, 2)]))
    attributes = window.attributes | {"pads": None, "auto_pad": None}
    shares: Value = op.emit("AveragePool", pad_image(op, window, ones, 0.0), **attributes)
    return shares


@family.converts("MaxPoolGradient", "MaxPool1DGradient", "MaxPool2DGradient", "MaxPool3DGradient", expects=_operand)
@takes(SINGLE, 0, 1, 2)
def max_pool_gradient(op: Op) -> Value:
    """MaxPoolGradient(X, Y, dY; <window>, order="NCHW") -> dX, and likewise for 1D, 2D and 3D.

    The gradient of a window goes to every pixel that equals its maximum.
    """
    op.args.ignore("count_include_pad", "deterministic")
    x, y, dy, window = _operands(op)
    if not window.kernel:
        dx = where_equal(op, x, y, dy)
    elif window.legacy is LegacyPad.NOTSET and min(*window.head, *window.tail) >= 0:
        dx = max_gradient(op, x, y, dy, window)
    else:
        zeros = (0,) * len(window.kernel)
        plain = replace(window, head=zeros, tail=zeros, legacy=LegacyPad.NOTSET)
        dx = unpad_image(op, window, max_gradient(op, pad_image(op, window, x, 0.0), y, dy, plain), x)
    return move_last(op, dx, when=window.channels_last)
