"""Deviations of ATen's operators."""

from __future__ import annotations

from typing import Final

from fuzz.exact.deviations.aten import (
    has_high_threshold,
    picks_nothing,
    pools_nothing,
    pools_short_rows,
    powers_wrap_around,
    reads_other_rows,
    rolls_around,
    samples_between_pixels,
    samples_nowhere,
)
from fuzz.exact.deviations.causes import averages_nothing, has_nan
from fuzz.exact.deviations.deviation import Deviation
from fuzz.exact.deviations.unchecked import orders_equal_elements

_ATEN: Final = frozenset({"ATen"})
ATEN: Final = (
    Deviation(
        "the mean of no elements, and the order of a NaN: PyTorch has a NaN, and the last place; ONNX defines neither",
        _ATEN,
        lambda drawn, expected, actual: averages_nothing(drawn, expected, actual) or has_nan(drawn, expected, actual),
    ),
    Deviation(
        "no elements that an ATen operator normalizes or pools, which onnxruntime's kernel refuses",
        _ATEN,
        pools_nothing,
        may_fail=True,
    ),
    Deviation(
        "rows shorter than the window of ATen's max_pool1d, of which PyTorch makes no elements",
        _ATEN,
        pools_short_rows,
        may_fail=True,
    ),
    Deviation(
        "a power or a product of integers beyond 53 bits or the type, which wraps around in PyTorch, or of 0 to a "
        "negative power",
        _ATEN,
        powers_wrap_around,
    ),
    Deviation("a shift of ATen's roll that is longer than the dim", _ATEN, rolls_around),
    Deviation(
        "an index of ATen's embedding_bag that is no row of its table, of which PyTorch reads out of bounds",
        _ATEN,
        reads_other_rows,
        may_fail=True,
    ),
    Deviation(
        "a threshold of ATen's softplus beyond the exponents of float, up to which PyTorch's result is infinite",
        _ATEN,
        has_high_threshold,
    ),
    Deviation(
        "the indices of equal elements, whose order PyTorch's unstable sort decides",
        _ATEN,
        orders_equal_elements,
    ),
    Deviation(
        "a coordinate of a volume halfway between two pixels, of which PyTorch takes the farther one from 0, ONNX the "
        "even one",
        _ATEN,
        samples_between_pixels,
    ),
    Deviation(
        "no indices, whose sizes exceed those of what they pick from, which PyTorch does not compare",
        _ATEN,
        picks_nothing,
        may_fail=True,
    ),
    Deviation(
        "a coordinate that is not finite or within 32 bits, which PyTorch casts to an integer",
        _ATEN,
        samples_nowhere,
    ),
)
