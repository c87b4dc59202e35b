"""Resizing of images along one axis after the other, with indices and weights computed in float as onnxruntime does.

A resized axis is a Gather at [n, taps] elements around each coordinate and a sum with weights of that shape (linear,
cubic), or a Gather at [n] (nearest). Coordinates and weights are constants where the sizes are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from caffe2_backend.emit.broadcast import expand
from caffe2_backend.emit.elements import distances_from_dim, elements_of, joined_numbers
from caffe2_backend.emit.selection import element, gather, slice_axis
from caffe2_backend.emit.shapes import dims_of, reshape
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NUMBERS
from caffe2_backend.lowering.value import Value
from caffe2_backend.ops.nn.interpolation import (
    COORDINATES,
    ROUNDED_UP,
    Axis,
    Cubic,
    Taps,
    antialiased_taps,
    cubic_taps,
    linear_taps,
    nearest_indices,
)
from caffe2_frontend.interop.types import FLOAT, INT64

family = Family("resize")

_CROP = "tf_crop_and_resize"


@dataclass(frozen=True)
class _Mode:
    """The attributes of a Resize, with the defaults of the operator's type."""

    mode: str
    coordinates: str
    rounding: str
    extrapolation: float
    antialias: bool
    cubic: Cubic
    policy: str

    @property
    def crops(self) -> bool:
        """Whether coordinates are those of a region of the image, and may be outside of it."""
        return self.coordinates == _CROP


def _read_mode(op: Op) -> _Mode:
    is_resize = op.type == "Resize"
    return _Mode(
        mode=op.args.text("mode", default="nearest"),
        coordinates=op.args.text("coordinate_transformation_mode", default="half_pixel" if is_resize else "asymmetric"),
        rounding=op.args.text("nearest_mode", default="round_prefer_floor" if is_resize else "floor"),
        extrapolation=op.args.number("extrapolation_value", default=0.0),
        antialias=op.args.flag("antialias", default=False),
        cubic=Cubic(
            op.args.number("cubic_coeff_a", default=-0.75), exclude=op.args.flag("exclude_outside", default=False)
        ),
        policy=op.args.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller"),
    )


@family.converts("Upsample", "Resize")
def resize(op: Op) -> Value:
    """``Resize(X, roi=None, scales=None, sizes=None; mode="nearest", ...) -> Y``, ``Upsample(X, scales; mode) -> Y``.

    ResizeNearest or UpsampleBilinear where it computes the same, else Gather, Mul and ReduceSum for each axis.
    """
    how = _read_mode(op)
    is_scaled = op.type == "Upsample" or not op.has_input(3)
    x = op.input(0)
    is_plain = (how.mode, how.coordinates, how.rounding) == ("nearest", "asymmetric", "floor")
    if is_plain and "axes" not in op.args and is_scaled and op.rank(x) == 4 and op.dtype(x) == FLOAT:
        resized = _resize_nearest(op, x, _given(op, is_scaled=True))
        if resized is not None:
            return resized
    if (how.mode, how.coordinates) == ("linear", "align_corners") and not how.antialias and "axes" not in op.args:
        resized = _upsample_bilinear(op, x, how, is_scaled=is_scaled)
        if resized is not None:
            return resized
    if how.coordinates not in COORDINATES:
        names = ", ".join(COORDINATES)
        reason = f"coordinate_transformation_mode must be one of {names}, not {how.coordinates!r}"
        op.unsupported(reason, code="invalid-argument")
    axes = _axes(op, x, how, is_scaled=is_scaled)
    if how.mode == "nearest":
        return _extrapolated(op, _nearest(op, x, axes, how), axes, how)
    if how.mode not in ("linear", "cubic"):
        op.unsupported(f"mode must be nearest, linear or cubic, not {how.mode!r}", code="invalid-argument")
    y = op.require(x, FLOAT)
    for axis in axes:
        if axis.is_unchanged and not how.crops:
            continue
        y = _weighted_sum(op, y, axis.index, op.rank(x), _taps(op, axis, how))
    return _extrapolated(op, y, axes, how)


def _given(op: Op, *, is_scaled: bool) -> Value:
    """Return the scales, or the sizes."""
    return op.input((2 if op.type == "Resize" else 1) if is_scaled else 3)


def _resize_nearest(op: Op, image: Value, scales: Value) -> Value | None:
    """Return Caffe2's ResizeNearest of images [n, c, h, w] whose n and c stay; None where they do not."""
    known = op.known_list(scales)
    if known is None:
        after = op.node.outputs[0].shape
        if after is None or list(after)[:2] != list(op.shape(image))[:2] or len(after) != 4:
            return None
        return op.emit("ResizeNearest", image, slice_axis(op, scales, 0, 2, 4))
    if known.size != 4 or known[0] != 1 or known[1] != 1:
        return None
    return op.emit("ResizeNearest", image, height_scale=float(known[2]), width_scale=float(known[3]))


def _upsample_bilinear(op: Op, image: Value, how: _Mode, *, is_scaled: bool) -> Value | None:
    """Return Caffe2's UpsampleBilinear of images [n, c, h, w] whose n and c stay; None for unknown scales.

    Its sizes after are those before times the scale, as floats, truncated.
    """
    if op.rank(image) != 4 or op.dtype(image) != FLOAT or (how.policy != "stretch" and not is_scaled):
        return None
    given = op.known_list(_given(op, is_scaled=is_scaled))
    before = op.static_shape(image)
    if given is None or given.size != 4 or (not is_scaled and not all(before or [0])):
        return None
    scales = given.astype(np.float32) if is_scaled else given.astype(np.float32) / np.array(before, np.float32)
    if not (scales[0] == scales[1] == 1 and (scales > 0).all()):
        return None
    if not is_scaled and (np.array(before, np.float32) * scales).astype(np.int64).tolist() != given.tolist():
        return None
    return op.emit("UpsampleBilinear", image, height_scale=float(scales[2]), width_scale=float(scales[3]))


def _axes(op: Op, image: Value, how: _Mode, *, is_scaled: bool) -> list[Axis]:
    """Return the resized axes, with their sizes before and after, from scales or from sizes."""
    rank, dims = op.rank(image), dims_of(op, image)
    named = op.args.integers("axes", default=())
    chosen = [op.axis(axis, rank) for axis in named] if "axes" in op.args else list(range(rank))
    before = [dims[axis] for axis in chosen]
    operand = _given(op, is_scaled=is_scaled)
    found = None if is_scaled else elements_of(op, 3, len(chosen))
    given = found or [element(op, operand, i).cast(FLOAT if is_scaled else INT64) for i in range(len(chosen))]
    kept = _kept(op, chosen, is_scaled=is_scaled) if how.policy == "stretch" else [False] * len(chosen)
    if is_scaled:
        scales = given
        after = [(n.cast(FLOAT) * scale).floor().cast(INT64) for n, scale in zip(before, scales, strict=True)]
    else:
        after = given
        scales = [size.cast(FLOAT) / n.cast(FLOAT) for n, size in zip(before, given, strict=True)]
        if how.policy != "stretch":
            keep = Value.minimum if how.policy == "not_larger" else Value.maximum
            scales = [reduce(keep, scales)] * len(scales)
            after = [(scale * n.cast(FLOAT) + 0.5).floor().cast(INT64) for n, scale in zip(before, scales, strict=True)]
    regions: list[tuple[Value, Value] | None] = [None] * len(chosen)
    if how.crops:
        ends = [element(op, op.input(1), i).cast(FLOAT) for i in range(2 * len(chosen))]
        regions = list(zip(ends[: len(chosen)], ends[len(chosen) :], strict=True))
    return [Axis(*of) for of in zip(chosen, before, after, scales, regions, kept, strict=True)]


def _kept(op: Op, axes: list[int], *, is_scaled: bool) -> list[bool]:
    """Return of each axis whether its scale is one, or its size that of the image."""
    if not is_scaled:
        return [distance == 0 for distance in distances_from_dim(op, 3, len(axes), axes)]
    numbers = joined_numbers(op.operand(2 if op.type == "Resize" else 1))
    same = numbers is not None and len(numbers) == len(axes)
    return [same and number == 1 for number in numbers or [None] * len(axes)]


def _taps(op: Op, axis: Axis, how: _Mode) -> Taps:
    x = COORDINATES[how.coordinates](op, axis)
    if how.antialias:
        return antialiased_taps(op, axis, x, how.cubic, linear=how.mode == "linear")
    return linear_taps(op, axis, x) if how.mode == "linear" else cubic_taps(op, axis, x, how.cubic)


def _weighted_sum(op: Op, image: Value, axis: int, rank: int, taps: Taps) -> Value:
    """Return the image with an axis of n elements, each the weighted sum of its taps."""
    spread = gather(op, image, axis, taps.indices)
    weights = reshape(op, taps.weights, [-1, taps.count, *[1] * (rank - 1 - axis)])
    return op.emit("ReduceSum", spread * weights, axes=[axis + 1], keepdims=0)


def _nearest(op: Op, image: Value, axes: list[Axis], how: _Mode) -> Value:
    if how.rounding != "floor" and how.rounding not in ROUNDED_UP:
        names = ", ".join(("floor", *ROUNDED_UP))
        op.unsupported(f"nearest_mode must be one of {names}, not {how.rounding!r}", code="invalid-argument")
    y = op.require(image, *NUMBERS) if how.crops else image
    for axis in axes:
        if axis.is_unchanged and not how.crops:
            continue
        y = gather(op, y, axis.index, nearest_indices(axis, COORDINATES[how.coordinates](op, axis), how.rounding))
    return op.emit("Copy", y) if y is image else y


def _extrapolated(op: Op, resized: Value, axes: list[Axis], how: _Mode) -> Value:
    """Put ``extrapolation_value`` where a coordinate is outside of the image, with tf_crop_and_resize."""
    if not how.crops:
        return resized
    x, masks = op.input(0), []
    for axis in axes:
        where = COORDINATES[how.coordinates](op, axis)
        inside = (where >= 0) & (where <= (axis.before - 1).cast(FLOAT))
        masks.append(reshape(op, inside, [-1, *[1] * (op.rank(x) - 1 - axis.index)]))
    mask = reduce(lambda a, b: a & b, masks)
    if mask.array is not None and mask.array.all():
        return resized
    shape = op.emit("Shape", resized)
    filled = expand(op, op.const(how.extrapolation, op.dtype(x)), shape)
    return op.emit("Where", expand(op, mask, shape), resized, filled)
