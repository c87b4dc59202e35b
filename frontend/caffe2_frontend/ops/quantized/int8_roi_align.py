"""RoIAlign of Int8 tensors: bilinear interpolation in integers, with weights of 8 bits."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.int8_values import (
    IMAGE,
    mark_quantized,
    output_quantization,
    quantization,
    require_bytes,
    saturate,
)
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import require_rank
from caffe2_frontend.emit.shapes import cast, indices, product, reshape, size, squeeze, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.emit.windows.regions import Pooling, image_indices, read_pooling
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT32, INT64, Quantization, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import columns

family = Family("int8_roi_align")

# The integer that represents a weight of 1.
_ONE: Final = 255
# The bits of gemmlowp's fixed point.
_BITS: Final = 31


@family.converts("Int8RoIAlign", expects={0: IMAGE, 1: TensorInfo(FLOAT, (None, None))})
def int8_roi_align(op: Op) -> Value:
    """Int8RoIAlign(X, RoIs; pooled_h=1, pooled_w=1, spatial_scale=1.0, sampling_ratio=-1, aligned=0, ...) -> Y.

    The remaining arguments are order="NHWC", Y_scale=1.0 and Y_zero_point=0. RoIs are floats as in RoIAlign. A Loop
    computes one region per iteration, as the number of samples may depend on its size.
    """
    x, rois = require_bytes(op, op.input(0), "the image"), op.input(1)
    require_rank(op, x, 4, "the image")
    from_, to, how = quantization(op, x), output_quantization(op), read_pooling(op)
    if not channels_last(op, default="NHWC"):
        op.unsupported("order must be NHWC for Int8 tensors", hint='set order="NHWC"', code="invalid-argument")
    if _scale(from_, to, max(how.samples, 1) ** 2) >= 1:
        op.unsupported(
            "the scale of X must be less than 255 * Y_scale times the number of samples of a bin",
            code="invalid-argument",
        )
    height, width, channels = (size(op, x, axis) for axis in (1, 2, 3))
    flat = reshape(op, x, [size(op, x, 0), product(op, [height, width]), channels])
    limits = [squeeze(op, vector(op, [side]), [0]) for side in (height, width)]
    # Four columns [regions, 1], and the image of each region.
    x1, y1, x2, y2 = columns(op, rois, 4)
    images = image_indices(op, rois, 4)

    def region(inside: Op, _: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        image, *corners = (inside.emit("Gather", v, iteration[0], axis=0) for v in (images, y1, x1, y2, x2))
        corners = [squeeze(inside, corner, [0]) for corner in corners]
        pixels = inside.emit("Gather", flat, image, axis=0)
        return [], [_region(inside, pixels, corners, limits, how, (from_, to))]

    count = size(op, rois, 0)
    _, (pooled,) = loop(op, count, None, [], region)
    # The stacked result of a Loop without iterations has no shape of its own.
    return mark_quantized(reshape(op, pooled, [count, how.height, how.width, channels]), to)


def _region(
    op: Op,
    pixels: Value,
    corners: list[Value],
    limits: list[Value],
    how: Pooling,
    kinds: tuple[Quantization, Quantization],
) -> Value:
    """Return the pooled features of one region, [height, width, C], of an image [H * W, C]."""
    from_, to = kinds
    offset = 0.5 if how.aligned else 0.0
    y1, x1, y2, x2 = (sub(op, mul(op, v, how.scale), offset) for v in corners)
    axes, counts = [], []
    for start, end, bins, limit in ((y1, y2, how.height, limits[0]), (x1, x2, how.width, limits[1])):
        side = sub(op, end, start)
        if not how.aligned:
            # Regions are at least one pixel wide.
            side = op.emit("Max", side, op.const(1.0, np.float32))
        part = div(op, side, float(bins))
        count = op.const(how.samples, np.int64) if how.samples else cast(op, op.emit("Ceil", part), INT64)
        counts.append(count)
        axes.append(_neighbours(op, _positions(op, start, part, bins, count), limit))
    total = _interpolate(op, pixels, axes, limits[1])
    grid = vector(
        op, [how.height, unsqueeze(op, counts[0], [0]), how.width, unsqueeze(op, counts[1], [0]), size(op, pixels, 1)]
    )
    by_bin = op.emit("Reshape", total, grid, allowzero=1, shape=[how.height, None, how.width, None, None])
    samples = mul(op, *counts)
    total = op.emit("ReduceSum", by_bin, op.const([1, 3], np.int64), keepdims=0)
    total = sub(op, cast(op, total, INT64), mul(op, samples, _ONE * from_.zero_point))
    return saturate(op, _multiplied(op, total, from_, to, how.samples**2 or samples), to, 0)


def _positions(op: Op, start: Value, part: Value, bins: int, count: Value) -> Value:
    """Return the positions of the samples along a side, [bins * count], where a bin is ``part`` pixels long."""
    index = indices(op, unsqueeze(op, mul(op, count, bins), [0]))
    within, of_bin = (cast(op, op.emit(kind, index, count), FLOAT) for kind in ("Mod", "Div"))
    begin = add(op, start, mul(op, of_bin, part))
    return add(op, begin, div(op, mul(op, add(op, within, 0.5), part), cast(op, count, FLOAT)))


def _neighbours(op: Op, position: Value, limit: Value) -> tuple[Value, Value, Value, Value, Value]:
    """Return the pixels around positions and their weights, and the mask of positions within one pixel of the image."""
    started = op.emit("GreaterOrEqual", position, op.const(-1.0, np.float32))
    there = op.emit("And", started, op.emit("LessOrEqual", position, cast(op, limit, FLOAT)))
    last = sub(op, limit, 1)
    position = op.emit("Max", position, op.const(0.0, np.float32))
    low = op.emit("Min", cast(op, position, INT64), last)
    high = op.emit("Min", add(op, low, 1), last)
    # The last pixel has no neighbour after it.
    far = op.emit(
        "Where", op.emit("Equal", low, last), op.const(0.0, np.float32), sub(op, position, cast(op, low, FLOAT))
    )
    return low, high, sub(op, 1.0, far), far, there


def _interpolate(op: Op, pixels: Value, axes: list[tuple[Value, Value, Value, Value, Value]], width: Value) -> Value:
    """Return the samples at all rows and columns: sums of four pixels times integer weights, in steps of 1 / 255."""
    (y_low, y_high, y_near, y_far, y_there), (x_low, x_high, x_near, x_far, x_there) = axes
    inside = op.emit("And", unsqueeze(op, y_there, [1]), unsqueeze(op, x_there, [0]))
    none = op.const(0.0, np.float32)
    samples = []
    for row, row_weight in ((y_low, y_near), (y_high, y_far)):
        for column, column_weight in ((x_low, x_near), (x_high, x_far)):
            weight = mul(op, unsqueeze(op, row_weight, [1]), unsqueeze(op, column_weight, [0]), float(_ONE))
            weight = cast(op, op.emit("Round", op.emit("Where", inside, weight, none)), INT32)
            index = add(op, mul(op, unsqueeze(op, row, [1]), width), unsqueeze(op, column, [0]))
            pixel = cast(op, op.emit("Gather", pixels, index, axis=0), INT32)
            samples.append(mul(op, pixel, unsqueeze(op, weight, [2])))
    return add(op, *samples)


def _scale(from_: Quantization, to: Quantization, samples: int) -> float:
    """Return the factor from the sum of ``samples`` samples to steps of the result."""
    return float(np.float32(from_.scale)) / (float(np.float32(to.scale)) * _ONE * samples)


def _multiplied(op: Op, total: Value, from_: Quantization, to: Quantization, samples: Value | int) -> Value:
    """Scale sums of ``samples`` samples to steps of the result in gemmlowp's fixed point, which rounds twice.

    The factor is ``multiplier / 2**31 / power``: the product with the multiplier is divided by 2**31, halves rounded
    up, and the quotient by the power of two, halves rounded away from zero.
    """
    if isinstance(samples, int):
        fraction, exponent = math.frexp(_scale(from_, to, samples))
        mantissa = round(math.ldexp(fraction, _BITS))
        if mantissa == 1 << _BITS:
            mantissa, exponent = mantissa >> 1, exponent + 1
        multiplier, power = op.const(mantissa, np.int64), op.const(1 << -exponent, np.int64)
    else:
        multiplier, power = _fixed_point(op, from_, to, samples)
    # Integer division truncates in ONNX; a positive dividend makes it round down, hence the offset of 2**62.
    offset = (1 << 62) + (1 << (_BITS - 1))
    high = sub(op, div(op, add(op, mul(op, total, multiplier), offset), 1 << _BITS), 1 << _BITS)
    return div(op, add(op, high, mul(op, op.emit("Sign", high), div(op, power, 2))), power)


def _fixed_point(op: Op, from_: Quantization, to: Quantization, samples: Value) -> tuple[Value, Value]:
    """Return the multiplier of 31 bits and the power of two, int64, for a number of samples known at run time."""
    divisor = mul(op, cast(op, samples, DOUBLE), float(np.float32(to.scale)) * _ONE)
    scale = div(op, float(np.float32(from_.scale)), divisor)
    exponent = op.emit("Floor", div(op, op.emit("Log", scale), -math.log(2.0)))
    # The rounded logarithm may be on the wrong side of a power of two: correct the power by a factor of two.
    power = op.emit("Pow", op.const(2.0, np.float64), exponent)
    for move, wrong, bound in ((2.0, "Less", 0.5), (0.5, "GreaterOrEqual", 1.0)):
        off = op.emit(wrong, mul(op, scale, power), op.const(bound, np.float64))
        power = op.emit("Where", off, mul(op, power, move), power)
    multiplier = op.emit("Round", mul(op, scale, power, 2.0**_BITS))
    full = op.emit("GreaterOrEqual", multiplier, op.const(2.0**_BITS, np.float64))
    half = op.emit("Where", full, op.const(0.5, np.float64), op.const(1.0, np.float64))
    return cast(op, mul(op, multiplier, half), INT64), cast(op, mul(op, power, half), INT64)
