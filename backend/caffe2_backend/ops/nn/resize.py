"""Resizing: along one axis after the other, from entries and weights computed as onnxruntime does, in float."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from caffe2_backend.emit.shapes import NUMBERS, Part, cut, dim_parts, expanded
from caffe2_backend.emit.value import Number, as_part, beside, count, entry, gathered, known, steps, weighted
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import BOOL, FLOAT, INT64, Op

family = Family("resize")


@dataclass(frozen=True)
class Axis:
    """An axis that is resized: its length before and after (int64), the scale, and both ends of the region (float)."""

    index: int
    before: Number
    after: Number
    scale: Number
    region: tuple[Number, Number] | None = None


@family.converts("Upsample", "Resize")
def resize(op: Op) -> str:
    """Caffe2's ResizeNearest where it is one; else nearest, linear or cubic, axis by axis."""
    mode = op.text("mode", "nearest")
    place = op.text("coordinate_transformation_mode", "half_pixel" if op.type == "Resize" else "asymmetric")
    rounding = op.text("nearest_mode", "round_prefer_floor" if op.type == "Resize" else "floor")
    outside, antialias = op.number("extrapolation_value", 0.0), bool(op.integer("antialias", 0))
    cubic = Cubic(op.number("cubic_coeff_a", -0.75), bool(op.integer("exclude_outside", 0)))
    scaled = op.type == "Upsample" or not op.has_input(3)
    policy = op.text("keep_aspect_ratio_policy", "stretch")
    plain = mode == "nearest" and place == "asymmetric" and rounding == "floor" and not op.has("axes")
    if plain and scaled and op.rank() == 4 and op.dtype() == FLOAT:
        made = _resize_nearest(op, 2 if op.type == "Resize" else 1)
        if made:
            return made
    if place not in PLACES:
        op.unsupported(f"coordinate_transformation_mode {place!r}", code="invalid-argument")
    axes = _axes(op, scaled=scaled, policy=policy, cropped=place == "tf_crop_and_resize")
    if mode == "nearest":
        return _outside(op, _nearest(op, axes, place, rounding), axes, place, outside)
    if mode not in ("linear", "cubic"):
        op.unsupported(f"mode {mode!r}", code="invalid-argument")
    op.require(0, FLOAT)
    blob = op.input(0)
    for axis in axes:
        if _is_same(axis) and place != "tf_crop_and_resize":
            continue
        where = PLACES[place](op, axis)
        if antialias:
            places, weights, each = _smooth(op, axis, where, cubic, linear=mode == "linear")
        elif mode == "linear":
            places, weights, each = _linear(op, axis, where)
        else:
            places, weights, each = _cubic(op, axis, where, cubic)
        blob = weighted(op, blob, axis.index, op.rank(), places, weights, each)
    return _outside(op, blob, axes, place, outside)


def _resize_nearest(op: Op, index: int) -> str:
    """Caffe2's own, for images of two dims whose batch and channels stay; else nothing."""
    scales = op.known(index)
    if scales is None:
        after = op.node.outputs[0].shape
        if after is None or list(after)[:2] != list(op.shape())[:2] or len(after) != 4:
            return ""
        return op.emit("ResizeNearest", op.input(0), cut(op, op.input(index), 0, 2, 4))
    if scales.size != 4 or scales[0] != 1 or scales[1] != 1:
        return ""
    return op.emit("ResizeNearest", op.input(0), height_scale=float(scales[2]), width_scale=float(scales[3]))


# The axes


def _axes(op: Op, *, scaled: bool, policy: str, cropped: bool) -> list[Axis]:
    rank = op.rank()
    named = op.integers("axes")
    chosen = list(range(rank)) if named is None else [op.axis(axis, rank) for axis in named]
    parts = dim_parts(op, 0)
    before = [count(op, parts[axis]) for axis in chosen]
    index = (2 if op.type == "Resize" else 1) if scaled else 3
    given = [entry(op, index, i, FLOAT if scaled else INT64) for i in range(len(chosen))]
    if scaled:
        scales = given
        after = [(n.cast(FLOAT) * scale).floor().cast(INT64) for n, scale in zip(before, scales, strict=True)]
    else:
        scales = [size.cast(FLOAT) / n.cast(FLOAT) for n, size in zip(before, given, strict=True)]
        after = given
        if policy != "stretch":
            keep = Number.at_most if policy == "not_larger" else Number.at_least
            scales = [reduce(keep, scales)] * len(scales)
            after = [(scale * n.cast(FLOAT) + 0.5).floor().cast(INT64) for n, scale in zip(before, scales, strict=True)]
    regions: list[tuple[Number, Number] | None] = [None] * len(chosen)
    if cropped:
        ends = [entry(op, 1, i, FLOAT) for i in range(2 * len(chosen))]
        regions = list(zip(ends[: len(chosen)], ends[len(chosen) :], strict=True))
    return [Axis(*of) for of in zip(chosen, before, after, scales, regions, strict=True)]


def _is_same(axis: Axis) -> bool:
    before, after = axis.before.known, axis.after.known
    scale = axis.scale.known
    return before is not None and after is not None and scale is not None and bool(before == after) and scale == 1


# Where an entry of the result lies in the operand


def _half_pixel(op: Op, axis: Axis) -> Number:
    return (_steps(op, axis) + 0.5) / axis.scale - 0.5


def _symmetric(op: Op, axis: Axis) -> Number:
    size = axis.before.cast(FLOAT)
    part = axis.after.cast(FLOAT) / (axis.scale * size)
    return size / 2.0 * (1.0 - part) + _half_pixel(op, axis)


def _pytorch(op: Op, axis: Axis) -> Number:
    return _half_pixel(op, axis) * (axis.after > 1).cast(FLOAT)


def _corners(op: Op, axis: Axis) -> Number:
    longer = (axis.after - 1).at_least(1).cast(FLOAT)
    return _steps(op, axis) * (axis.before - 1).cast(FLOAT) / longer


def _cropped(op: Op, axis: Axis) -> Number:
    assert axis.region is not None
    start, end = axis.region
    size = (axis.before - 1).cast(FLOAT)
    inside = start * size + _steps(op, axis) * (end - start) * size / (axis.after - 1).at_least(1).cast(FLOAT)
    return inside.chosen((start + end) * 0.5 * size, axis.after > 1)


def _steps(op: Op, axis: Axis) -> Number:
    return steps(op, axis.after).cast(FLOAT)


PLACES: Final[dict[str, Callable[[Op, Axis], Number]]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch,
    "align_corners": _corners,
    "asymmetric": lambda op, axis: _steps(op, axis) / axis.scale,
    "tf_half_pixel_for_nn": lambda op, axis: (_steps(op, axis) + 0.5) / axis.scale,
    "tf_crop_and_resize": _cropped,
}


# What is taken there


ROUNDED_UP: Final[dict[str, Callable[[Number], Number]]] = {
    "ceil": lambda rest: rest > 0,
    "round_prefer_floor": lambda rest: rest > 0.5,
    "round_prefer_ceil": lambda rest: rest >= 0.5,
}


def _nearest(op: Op, axes: list[Axis], place: str, rounding: str) -> str:
    if rounding != "floor" and rounding not in ROUNDED_UP:
        op.unsupported(f"nearest_mode {rounding!r}", code="invalid-argument")
    if place == "tf_crop_and_resize":
        op.require(0, *NUMBERS)
    blob = op.input(0)
    for axis in axes:
        if _is_same(axis) and place != "tf_crop_and_resize":
            continue
        where = PLACES[place](op, axis)
        low = where.floor()
        rest = where - low
        whole = low if rounding == "floor" else low + ROUNDED_UP[rounding](rest).cast(FLOAT)
        blob = gathered(op, blob, axis.index, _in_image(whole.cast(INT64), axis))
    return blob if blob != op.input(0) else op.emit("Copy", blob)


def _in_image(places: Number, axis: Axis) -> Number:
    return places.at_least(0).at_most(axis.before - 1)


def _taps(op: Op, low: Number, first: int, each: int) -> Number:
    """The places [n, each] around the whole number below."""
    around = [[first + i for i in range(each)]]
    return low.cast(INT64).reshape(-1, 1) + known(op, around)


def _linear(op: Op, axis: Axis, where: Number) -> tuple[Number, Number, Part]:
    """Of a place outside of the image what lies at its edge."""
    inside = where.at_least(0).at_most((axis.before - 1).cast(FLOAT))
    low = inside.floor()
    rest = (inside - low).reshape(-1, 1)
    return _in_image(_taps(op, low, 0, 2), axis), beside(op, [1.0 - rest, rest], 1), 2


@dataclass(frozen=True)
class Cubic:
    """The cubic convolution's parameter, and whether what lies outside of the image counts nothing."""

    a: float
    exclude: bool

    def near(self, x: Number) -> Number:
        """The weight at a distance of at most one."""
        return ((self.a + 2) * x - (self.a + 3)) * x * x + 1.0

    def far(self, x: Number) -> Number:
        """The weight at a distance between one and two."""
        return ((self.a * x - 5 * self.a) * x + 8 * self.a) * x - 4 * self.a


def _cubic(op: Op, axis: Axis, where: Number, cubic: Cubic) -> tuple[Number, Number, Part]:
    low = where.floor()
    rest = (where - low).reshape(-1, 1)
    weights = beside(op, [cubic.far(rest + 1.0), cubic.near(rest), cubic.near(1.0 - rest), cubic.far(2.0 - rest)], 1)
    return *_bounded(axis, _taps(op, low, -1, 4), weights, exclude=cubic.exclude), 4


def _bounded(axis: Axis, places: Number, weights: Number, *, exclude: bool) -> tuple[Number, Number]:
    """Places outside are those at the edge; or they count nothing, and the others add up to one."""
    if exclude:
        inside = (places >= 0) & (places < axis.before)
        weights = weights * inside.cast(FLOAT)
        weights = weights / weights.summed(1)
    return _in_image(places, axis), weights


def _smooth(op: Op, axis: Axis, where: Number, cubic: Cubic, *, linear: bool) -> tuple[Number, Number, Part]:
    """The filter stretched by the scale where the image shrinks; as many entries as the stretched filter covers."""
    scale = axis.scale.at_most(1)
    first = (scale.like(-1 if linear else -2) / scale).floor().cast(INT64) + 1
    each = 2 - first * 2
    around = (steps(op, each) + first).reshape(1, -1)
    low = where.floor().reshape(-1, 1)
    distance = ((around.cast(FLOAT) - (where.reshape(-1, 1) - low)) * scale).absolute()
    if linear:
        weights = (1.0 - distance).at_least(0)
    else:
        weights = cubic.near(distance).chosen(cubic.far(distance) * (distance < 2).cast(FLOAT), distance <= 1)
    weights = weights / weights.summed(1)
    places = low.cast(INT64) + around
    return *_bounded(axis, places, weights, exclude=cubic.exclude), as_part(each)


def _outside(op: Op, blob: str, axes: list[Axis], place: str, value: float) -> str:
    """Entries whose place lies outside of the image are a value of their own, with tf_crop_and_resize."""
    if place != "tf_crop_and_resize":
        return blob
    rank = op.rank()
    masks = []
    for axis in axes:
        where = PLACES[place](op, axis)
        inside = (where >= 0) & (where <= (axis.before - 1).cast(FLOAT))
        masks.append(inside.reshape(-1, *[1] * (rank - 1 - axis.index)))
    mask = reduce(lambda a, b: a & b, masks)
    if mask.known is not None and mask.known.all():
        return blob
    shape = op.emit("Shape", blob)
    filled = expanded(op, op.const(value, op.dtype()), op.dtype(), shape)
    return op.emit("Where", expanded(op, mask.blob, BOOL, shape), blob, filled)
