"""Pooling: the maximum, the mean or the p-norm of a moving window.

<window> in a signature stands for the arguments that emit.windows reads: kernel | kernel_h, kernel_w | kernels, and
likewise stride=1, dilation=1, pad=0 (pad_t, pad_l, pad_b, pad_r | pads), legacy_pad=0 and global_pooling=0.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import reciprocal
from caffe2_frontend.emit.layout import move_first, move_last
from caffe2_frontend.emit.operand_checks import SINGLE, require_dtype, require_rank
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.windows.window import (
    LegacyPad,
    Window,
    caffe_pads,
    check_fits,
    crop_gaps,
    read_pooling_window,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("pooling")

_FLOAT = {0: TensorInfo(ir.DataType.FLOAT)}

# The rank of images with three spatial dims.
_MAX_POOLED_RANK = 5
_LARGEST_POWER = 1 << 31  # of onnxruntime's poolings


@family.converts("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D", expects=_FLOAT, uniform=True)
def max_pool(op: Op) -> Value:
    """MaxPool | MaxPool1D | MaxPool2D | MaxPool3D(X; <window>, order="NCHW") -> Y."""
    op.args.ignore("count_include_pad")
    x, window = _prepared(op)
    if not window.kernel:
        y = _pooled_whole(op, x, "GlobalMaxPool", "ReduceMax")
    else:
        y = op.emit("MaxPool", x, **_attributes(window))
    return move_last(op, y, when=window.channels_last)


@family.converts("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D", expects=_FLOAT, uniform=True)
def average_pool(op: Op) -> Value:
    """AveragePool | AveragePool1D | AveragePool2D | AveragePool3D(X; <window>, count_include_pad=0, order="NCHW") -> Y.

    With count_include_pad and legacy_pad CAFFE_LEGACY_POOLING a window is divided by its full size, even where it
    exceeds the padded image.
    """
    count_pads = op.args.flag("count_include_pad", default=False)
    x, window = _prepared(op)
    if not window.kernel:
        y = _pooled_whole(op, x, "GlobalAveragePool", "ReduceMean")
    elif count_pads and window.legacy is LegacyPad.CAFFE_LEGACY_POOLING:
        padded = caffe_pads(op, window, x, 0.0)
        y = op.emit("AveragePool", padded, count_include_pad=1, **window.attributes | {"pads": None})
    else:
        y = op.emit("AveragePool", x, count_include_pad=1 if count_pads else None, **_attributes(window))
    return move_last(op, y, when=window.channels_last)


@family.converts("LpPool", expects=_FLOAT)
def lp_pool(op: Op) -> Value:
    """LpPool(X; <window>, p=2.0, order="NCHW") -> Y.

    ONNX requires an integer ``p``. For others the powers ``|x| ** p`` are pooled with p=1, and the root is taken after.
    Caffe2's kernel reads the first two spatial dims alone, whatever the rank.
    """
    require_rank(op, op.input(0), 4, "the image")
    p = op.args.number("p", default=2.0)
    x, window = _prepared(op)
    integer = p.is_integer() and 1 <= p < _LARGEST_POWER
    if not integer:
        x = op.emit("Pow", op.emit("Abs", x), op.const(p, x))
    attributes: dict[str, Any] = {"p": int(p) if integer else 1}
    if not window.kernel:
        y = op.emit("GlobalLpPool", x, **attributes)
    else:
        y = op.emit("LpPool", x, **attributes, **_attributes(window))
    if not integer:
        y = op.emit("Pow", y, op.const(reciprocal(p), x))
    return move_last(op, y, when=window.channels_last)


def _prepared(op: Op) -> tuple[Value, Window]:
    """Return the image, channels first, and the window over it."""
    x = op.input(0)
    require_dtype(op, x, SINGLE, "the image")
    window = read_pooling_window(op, op.rank(x))
    x = move_first(op, x, when=window.channels_last)
    if window.kernel:
        check_fits(op, window, x, pooled=True)
    return crop_gaps(op, window, x), window


def _pooled_whole(op: Op, x: Value, pooling: str, reduction: str) -> Value:
    """Pool the whole image [N, C, ...]; onnxruntime's poolings have no kernels for more than three spatial dims."""
    rank = op.rank(x)
    return op.emit(pooling, x) if rank <= _MAX_POOLED_RANK else reduce_axes(op, reduction, x, range(2, rank), keep=True)


def _attributes(window: Window) -> dict[str, Any]:
    """Return the attributes of ONNX's operator for a window.

    With CAFFE_LEGACY_POOLING the number of windows is rounded up, and the head's pads serve for both sides.
    """
    if window.legacy is not LegacyPad.CAFFE_LEGACY_POOLING:
        return window.attributes
    pads = [*window.head, *window.head]
    return window.attributes | {"pads": pads if any(pads) else None, "ceil_mode": 1}
