"""What gives ATen's operators cause to deviate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView, OpView
from fuzz.exact.deviations.causes import Arrays, averages_nothing
from fuzz.exact.deviations.unchecked import operators
from fuzz.exact.drawing.drawn import Drawn

_INT32_ENDS: Final = 2.0**31
_LARGEST_EXPONENT: Final = 88.0  # of a float's exponential
_NEAREST: Final = 1


def pools_nothing(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether an operand has no elements, and an ATen operator normalizes or pools."""
    names = (name for name, _ in _aten(drawn))
    return averages_nothing(drawn, expected, actual) and any("norm" in name or "pool" in name for name in names)


def pools_short_rows(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the rows of an ATen max_pool1d are shorter than its window."""
    for op, (x, *_rest) in operators(drawn, "ATen"):
        if op.args.text("operator", default="") == "max_pool1d" and x is not None and x.ndim:
            kernel, padding, dilation = (
                (op.args.integers(name, default=()) or (default,))[0]
                for name, default in (("kernel_size", 1), ("padding", 0), ("dilation", 1))
            )
            if x.shape[-1] + 2 * padding < dilation * (kernel - 1) + 1:
                return True
    return False


def powers_wrap_around(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a power or a product of integers leaves their type or 53 bits, or is of 0 to a negative power."""
    for op, operands in operators(drawn, "ATen"):
        name = op.args.text("operator", default="")
        numbers = [array for array in operands if array is not None and array.dtype.kind in "iub"]
        if not numbers or name not in ("pow", "prod"):
            continue
        given = {arg.name: arg.f or arg.i for arg in op.proto.arg}
        with np.errstate(all="ignore"):
            if name == "prod":
                bits, result = 64, np.asarray(np.prod(np.maximum(np.abs(numbers[0].astype(np.float64)), 1)))
            else:
                bits = min(8 * array.dtype.itemsize for array in numbers)
                base, exponent = (
                    np.float64(given.get(key, numbers[at])) for key, at in (("self", 0), ("exponent", -1))
                )
                result = np.asarray(np.abs(base) ** exponent)
            if not bool((result < 2.0 ** min(bits - 1, 53)).all()):
                return True
    return False


def rolls_around(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a shift of an ATen roll is longer than the dim."""
    for op, (x, *_rest) in operators(drawn, "ATen"):
        if op.args.text("operator", default="") == "roll" and x is not None:
            dims = op.args.integers("dims", default=())
            sizes = [x.shape[dim] for dim in dims if -x.ndim <= dim < x.ndim] if dims else [x.size]
            if any(abs(shift) > size for shift, size in zip(op.args.integers("shifts"), sizes, strict=False)):
                return True
    return False


def reads_other_rows(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an ATen embedding_bag has an index that is no row of its table."""
    for op in (op for name, op in _aten(drawn) if name == "embedding_bag"):
        table, index = (drawn.inputs.get(name) for name in op.inputs[:2])
        if table is not None and index is not None and table.ndim:
            return not ((index >= 0) & (index < len(table))).all()
    return False


def has_high_threshold(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an ATen softplus computes exponentials beyond the range of floats."""
    named = (op for name, op in _aten(drawn) if name == "softplus")
    return any(op.args.number("threshold", default=20.0) > _LARGEST_EXPONENT for op in named)


def _aten(drawn: Drawn) -> Iterator[tuple[str, OpView]]:
    """The ATen operators of a case, with their names."""
    operators = (op for op in all_operators(NetView(drawn.net)) if op.type == "ATen")
    return ((op.args.text("operator", default=""), op) for op in operators)


def samples_nowhere(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a coordinate of ATen's grid_sampler, times the size of the image, is not finite or beyond 32 bits."""
    for op, operands in operators(drawn, "ATen"):
        image, coordinates = (*operands, None, None)[:2]
        if op.args.text("operator", default="") == "grid_sampler" and coordinates is not None:
            size = max(image.shape[2:], default=1) if image is not None else 1
            if not bool((np.abs(coordinates.astype(np.float64)) * size < _INT32_ENDS).all()):  # nor a NaN
                return True
    return False


def samples_between_pixels(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a coordinate of a grid_sampler is as near to one pixel of a volume as to another, and it takes one."""
    for op, operands in operators(drawn, "ATen"):
        image, grid = (*operands, None, None)[:2]
        is_nearest = op.args.integer("interpolation_mode", default=0) == _NEAREST
        if (
            "grid_sampler" not in op.args.text("operator", default="")
            or not is_nearest
            or image is None
            or grid is None
        ):
            continue
        if image.ndim != 5 or grid.ndim != 5 or grid.shape[-1] != 3:
            continue
        sizes = np.array(image.shape[:1:-1], np.float64)
        at = (grid.astype(np.float64) + 1) / 2
        pixels = at * (sizes - 1) if op.args.flag("align_corners", default=True) else at * sizes - 0.5
        if bool((np.abs(pixels % 1 - 0.5) < 1e-3).any()):
            return True
    return False


def picks_nothing(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the indices of a gather have no elements, but a dim that exceeds that of the operand."""
    for op, operands in operators(drawn, "ATen"):
        x, index = (*operands, None, None)[:2]
        if op.args.text("operator", default="") != "gather" or x is None or index is None or x.ndim != index.ndim:
            continue
        if not index.size and any(picked > size for picked, size in zip(index.shape, x.shape, strict=True)):
            return True
    return False
