"""Gradients of locally connected layers: convolutions with weights of their own at each position."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.layout import move_first, move_last
from caffe2_frontend.emit.operand_checks import SINGLE, require_equal, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import Size, product, reshape, size, sizes
from caffe2_frontend.emit.windows.convolution_checks import check_local_weight
from caffe2_frontend.emit.windows.convolution_gradients import (
    batched_product,
    image_gradient,
    product_with_transposed,
    window_columns,
)
from caffe2_frontend.emit.windows.window import Window, check_fits, image_rank, read_window
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("local_convolution_gradient")


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe X, W and dY by their ranks: the spatial dims count twice in that of W."""
    rank = image_rank(op)
    if rank is None:
        return TensorInfo(ir.DataType.FLOAT)
    return TensorInfo(ir.DataType.FLOAT, (None,) * (2 * rank - 2 if index == 1 else rank))


@family.converts("LCGradient", "LC1DGradient", "LC2DGradient", "LC3DGradient", expects=_operand)
@takes(SINGLE, 0, 1, 2)
def locally_connected_gradient(op: Op) -> tuple[Value, ...]:
    """LCGradient(X, W, dY; <window>, order="NCHW", no_bias=0) -> dW, db[, dX], and likewise for LC1D, LC2D and LC3D.

    With no_bias=1 the outputs are dW[, dX]. W is [*out, M, C, *kernel], db [*out, M]. With P positions and K pixels
    under a window, the gradients are products per position: [M, N] @ [N, K] for dW, [K, M] @ [M, N] for the columns of
    pixels, which dX sums.
    """
    x, w, dy = op.input(0), op.input(1), op.input(2)
    rank = op.rank(x)
    window = read_window(op, rank, exact=True)
    dims = rank - 2
    check_local_weight(op, window, w, rank, "the operands")
    require_rank(op, dy, rank, "the gradient of the result")
    last = window.channels_last
    x, dy = (move_first(op, value, when=last) for value in (x, dy))
    if last:
        w = op.emit("Transpose", w, perm=[0, 1, 2, 5, 3, 4])
    check_fits(op, window, x)
    require_equal(op, op.static_dim(x, 1), op.static_dim(w, dims + 1), "channels of the image and of the weight")
    n, m, channels = size(op, x, 0), size(op, w, dims), size(op, w, dims + 1)
    positions = sizes(op, w, 0, dims)
    area, depth = product(op, positions), product(op, [channels, *window.kernel])
    # One matrix per position: [M, N] and [K, N].
    rows = op.emit("Transpose", reshape(op, dy, [n, m, area]), perm=[2, 1, 0])
    columns = reshape(op, window_columns(op, x, window), [depth, n, area])
    columns = op.emit("Transpose", columns, perm=[2, 0, 1])
    dw = reshape_like(op, product_with_transposed(op, rows, columns), w)
    results = [op.emit("Transpose", dw, perm=[0, 1, 2, 4, 5, 3]) if last else dw]
    if not op.args.flag("no_bias", default=False):
        results.append(_channels_last(op, reduce_axes(op, "ReduceSum", dy, [0])))
    if op.wants(len(results)):
        weights = op.emit("Transpose", reshape(op, w, [area, m, depth]), perm=[0, 2, 1])
        results.append(move_last(op, _image(op, batched_product(op, weights, rows), window, x, positions), when=last))
    return tuple(results[: op.output_count])


def _channels_last(op: Op, db: Value) -> Value:
    """Transpose [M, *out] to [*out, M]."""
    return op.emit("Transpose", db, perm=[*range(1, op.rank(db)), 0])


def _image(op: Op, columns: Value, window: Window, x: Value, positions: list[Size]) -> Value:
    """Add the columns [P, K, N] of pixels to the pixels of the image: a convolution with one-hot kernels, reversed."""
    taps = math.prod(window.kernel)
    planes = product(op, sizes(op, x, 0, 2))
    by_tap = reshape(op, op.emit("Transpose", columns, perm=[2, 1, 0]), [planes, taps, *positions])
    op.bounded(taps, taps)
    one_hot = op.const(np.eye(taps).reshape(taps, 1, *window.kernel), x)
    image = reshape(op, x, [planes, 1, *sizes(op, x, 2)])
    return reshape_like(op, image_gradient(op, by_tap, one_hot, window, image), x)
