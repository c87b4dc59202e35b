"""Gradients of convolutions, ordinary and transposed.

<window> in a signature stands for the arguments that emit.windows reads: kernel | kernel_h, kernel_w | kernels, and
likewise stride=1, dilation=1, pad=0 (pad_t, pad_l, pad_b, pad_r | pads) and legacy_pad=0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.layout import move_first, move_last
from caffe2_frontend.emit.operand_checks import SINGLE, require_equal, require_groups, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.windows.convolution_checks import check_kernel, check_weight
from caffe2_frontend.emit.windows.convolution_gradients import image_gradient, weight_gradient
from caffe2_frontend.emit.windows.window import LegacyPad, Window, check_fits, image_rank, read_window
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("convolution_gradient")


def _operand(op: OpView, _: int) -> TensorInfo:
    """Describe X, W and dY: float, of the rank that the window's arguments imply."""
    rank = image_rank(op)
    return TensorInfo(ir.DataType.FLOAT, None if rank is None else (None,) * rank)


@family.converts("ConvGradient", "Conv1DGradient", "Conv2DGradient", "Conv3DGradient", expects=_operand)
@takes(SINGLE, 0, 1, 2)
def convolution_gradient(op: Op) -> tuple[Value, ...]:
    """ConvGradient(X, W, dY; <window>, group=1, order="NCHW", no_bias=0) -> dW, db[, dX].

    With no_bias=1 the outputs are dW[, dX]. With global_pooling the kernel is the image.
    """
    op.args.ignore("force_algo_fwd", "force_algo_dgrad", "force_algo_wgrad", "freeze_bias")
    x, w, dy = op.input(0), op.input(1), op.input(2)
    group = op.args.integer("group", default=1)
    window = read_window(op, op.rank(x), whole=True, exact=True)
    last = window.channels_last
    x, w, dy = (move_first(op, value, when=last) for value in (x, w, dy))
    require_rank(op, w, op.rank(x), "the weight")
    window = _covered(op, window, w)
    check_weight(op, window, w, x, group, None)
    check_fits(op, window, x)
    _check_gradient(op, dy, op.rank(x), op.static_dim(w, 0))
    dw = move_last(op, weight_gradient(op, x, dy, w, window, group), when=last)
    return _results(op, dw, dy, lambda: move_last(op, image_gradient(op, dy, w, window, x, group), when=last))


@family.converts("ConvTransposeGradient", expects=_operand)
@takes(SINGLE, 0, 1, 2)
def transposed_convolution_gradient(op: Op) -> tuple[Value, ...]:
    """ConvTransposeGradient(X, W, dY; <window>, adj=0, group=1, order="NCHW", no_bias=0) -> dW, db[, dX].

    With no_bias=1 the outputs are dW[, dX]. dX is a convolution of dY, and dW the gradient of that with respect to W.
    """
    op.args.ignore("no_gradient_to_input", "adj", "adj_h", "adj_w", "adjs")
    x, w, dy = op.input(0), op.input(1), op.input(2)
    group = op.args.integer("group", default=1)
    require_rank(op, x, 4, "the image")
    window = read_window(op, 4, dilated=False, exact=True)
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING or min(*window.head, *window.tail) < 0:
        op.unsupported(
            "pads must not be negative, and legacy_pad must not be 3 (CAFFE_LEGACY_POOLING)", code="invalid-argument"
        )
    # The other forms of legacy_pad add no pads here.
    window = replace(window, legacy=LegacyPad.NOTSET)
    last = window.channels_last
    x, w, dy = (move_first(op, value, when=last) for value in (x, w, dy))
    check_kernel(op, window, w)
    channels, filters = op.static_dim(w, 0), op.static_dim(w, 1)
    require_equal(op, op.static_dim(x, 1), channels, "channels of the image and of the weight")
    require_groups(op, channels, group, "channels")
    _check_gradient(op, dy, 4, filters and filters * group)
    dw = move_last(op, weight_gradient(op, dy, x, w, window, group), when=last)

    def dx() -> Value:
        value = op.emit("Conv", dy, w, group=group if group != 1 else None, **window.attributes)
        return move_last(op, value, when=last)

    return _results(op, dw, dy, dx)


def _covered(op: Op, window: Window, w: Value) -> Window:
    """Return the window itself, or for global_pooling one whose kernel is that of the weight."""
    if window.kernel:
        return window
    kernel = []
    for axis in range(2, op.rank(w)):
        dim = op.static_dim(w, axis)
        if dim is None:
            op.needs_shape("the kernel sizes of the weight must be known with global_pooling")
        kernel.append(dim)
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    return replace(window, kernel=tuple(kernel), stride=ones, dilation=ones, head=zeros, tail=zeros)


def _check_gradient(op: Op, dy: Value, rank: int, filters: int | None) -> None:
    require_rank(op, dy, rank, "the gradient of the result")
    require_equal(op, op.static_dim(dy, 1), filters, "channels of the gradient and filters")


def _results(op: Op, dw: Value, dy: Value, dx: Callable[[], Value]) -> tuple[Value, ...]:
    """Return dW, db unless no_bias is set, and dX if it is wanted; ``dy`` is [N, M, ...]."""
    results = [dw]
    if not op.args.flag("no_bias", default=False):
        results.append(reduce_axes(op, "ReduceSum", dy, [0, *range(2, op.rank(dy))]))
    if op.output_count > len(results) + 1:
        op.unsupported(
            f"the operator must have at most {len(results) + 1} outputs, not {op.output_count}",
            hint="list the gradients of the weight, of the bias (unless no_bias=1) and of the image",
            code="invalid-operands",
        )
    if op.wants(len(results)):
        results.append(dx())
    return tuple(results[: op.output_count])
