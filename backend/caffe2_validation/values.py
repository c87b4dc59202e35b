"""Differences of values, and tolerances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.values import Array, Int8Tensor

_BINS: Final = 24
_MOST_ROWS: Final = 64
# How many differences are counted at once: the counts of a large tensor take little memory beside it.
_BLOCK: Final = 1 << 20
_GROWS_UNTIL: Final = 8.0
_SMALLEST_SCALE: Final = 1e-2


@dataclass(frozen=True)
class Tolerance:
    """``|a - b| <= atol + rtol * |a|`` for one dtype; everything else is exact.

    ``grows``: with depth. ``scaled``: ``atol`` is relative to the largest element of ``a``, but at least to 0.01.
    """

    rtol: float
    atol: float
    grows: bool = True
    scaled: bool = False

    def at_depth(self, depth: int) -> Tolerance:
        """Return the tolerance after ``depth`` operators: rounding errors grow as a random walk, at most eightfold."""
        if not self.grows:
            return self
        factor = min(math.sqrt(max(depth, 1)), _GROWS_UNTIL)
        return Tolerance(self.rtol * factor, self.atol * factor, scaled=self.scaled)

    def for_values(self, a: Array) -> Tolerance:
        """Return the tolerance for a tensor, with an absolute ``atol``."""
        if not self.scaled:
            return self
        largest = float(np.abs(a).max(initial=0.0, where=np.isfinite(a)))
        return Tolerance(self.rtol, self.atol * max(largest, _SMALLEST_SCALE), self.grows)


# About a hundred rounding errors: the loss of a matrix product over some hundred elements.
TOLERANCES: Final[Mapping[str, Tolerance]] = {
    "float16": Tolerance(1e-2, 1e-3),
    "float32": Tolerance(1e-4, 1e-5),
    "float64": Tolerance(1e-9, 1e-11),
}
EXACT: Final = Tolerance(0.0, 0.0)
# One step of a quantized value, whatever its scale is: two roundings of nearly the same number.
_STEP: Final = 1
_QUANTIZED: Final = ("uint8", "int8")


def with_tolerance(
    tolerances: Mapping[str, Tolerance], rtol: float | None, atol: float | None
) -> Mapping[str, Tolerance]:
    """Return the tolerances with ``rtol``, ``atol`` or both in place of each dtype's; these hold at any depth."""
    if rtol is None and atol is None:
        return tolerances
    return {
        dtype: Tolerance(known.rtol if rtol is None else rtol, known.atol if atol is None else atol, grows=False)
        for dtype, known in tolerances.items()
    }


@dataclass(frozen=True)
class Difference:
    """How one value differs from the reference's.

    Attributes:
        agrees: the verdict.
        reason: why not; empty if it agrees.
        dtype: the reference's dtype; shape: its shape.
        rtol: the relative tolerance; atol: the absolute one.
        max_abs: largest absolute difference of elements that are finite on both sides.
        max_rel: largest of the same relative to the reference's element.
        max_ulp: the largest number of steps from one float to the next between the two elements. Elements near zero
            are left out, where the absolute tolerance is larger than the relative one: there this number is large for
            the smallest differences. 0 for other than floats.
        wrong: how many elements are beyond the tolerance, of ``size``.
        nan_agrees: whether NaN has the same positions; inf_agrees: the same for infinities and their signs.
        worst: the index of the element that is furthest off.
        histogram: counts of differences by power of ten, from 1e-20 (and less) to 1e3 (and more).
        rows: of a float tensor with three axes, as sequences are, the largest difference along the first axis: of each
            step, or of each of 64 runs of steps.
        note: a remark on values that agree and are not equal by the rule of their dtype; empty if there is none.
        compared: whether values were compared; of random ones only shape and dtype are. A tensor without elements has
            none, and one of NaN and infinities alone none that says anything.
    """

    agrees: bool
    reason: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    wrong: int = 0
    size: int = 0
    nan_agrees: bool = True
    inf_agrees: bool = True
    worst: tuple[int, ...] = ()
    histogram: tuple[int, ...] = ()
    rows: tuple[float, ...] = ()
    note: str = ""
    compared: bool = True

    @property
    def verdict(self) -> str:
        """The verdict in words: ``agrees``, ``differs`` or ``not compared``."""
        if not self.agrees:
            return "differs"
        return "agrees" if self.compared else "not compared"

    @property
    def numbers(self) -> tuple[str, str, str]:
        """``max_abs``, ``max_rel`` and ``max_ulp`` for tables; empty where nothing was compared or counted."""
        if not self.compared:
            return "", "", ""
        ulp = f"{self.max_ulp:.0f}" if self.max_ulp or not self.max_abs else ""
        return f"{self.max_abs:.1e}", f"{self.max_rel:.1e}", ulp

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinities are text."""
        data = asdict(self)
        data["rows"] = [_plain(row) for row in self.rows]
        return {name: _plain(value) for name, value in data.items()}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def compare(
    expected: Array | Int8Tensor,
    actual: Array | Int8Tensor,
    *,
    depth: int = 1,
    tolerances: Mapping[str, Tolerance] = TOLERANCES,
) -> Difference:
    """Return how ``actual`` differs from ``expected``.

    Shapes and dtypes must be equal; so must integers, bools, strings, and the scales of Int8 tensors if both sides
    have one. NaN equals NaN, an infinity equals itself. Quantized values (uint8, int8) agree within one step, with a
    note; a plain array of zeros and ones is a mask, and must be equal.
    """
    if isinstance(expected, Int8Tensor) and isinstance(actual, Int8Tensor):
        one, other = (expected.scale, expected.zero_point), (actual.scale, actual.zero_point)
        if not np.allclose(one, other):
            reason = f"scale and zero point are {other}, not {one}"
            return Difference(agrees=False, reason=reason, dtype=str(expected.data.dtype), shape=expected.data.shape)
    a = expected.data if isinstance(expected, Int8Tensor) else np.asarray(expected)
    b = actual.data if isinstance(actual, Int8Tensor) else np.asarray(actual)
    reason = _kind(a, b)
    if reason:
        return Difference(agrees=False, reason=reason, dtype=str(a.dtype), shape=a.shape, wrong=a.size, size=a.size)
    if a.dtype.kind == "f":
        allowed = tolerances.get(str(a.dtype), EXACT).at_depth(depth).for_values(a)
        return _floats(a, b, allowed)
    quantized = isinstance(expected, Int8Tensor) or isinstance(actual, Int8Tensor) or not _is_mask(a)
    return _exact(a, b, step=_STEP if quantized and str(a.dtype) in _QUANTIZED else 0)


def same_kind(expected: Array | Int8Tensor, actual: Array | Int8Tensor) -> Difference:
    """Compare shape and dtype only: two runtimes never draw the same random values."""
    a = expected.data if isinstance(expected, Int8Tensor) else np.asarray(expected)
    b = actual.data if isinstance(actual, Int8Tensor) else np.asarray(actual)
    reason = _kind(a, b)
    return Difference(
        agrees=not reason, reason=reason, dtype=str(a.dtype), shape=a.shape, size=a.size, compared=bool(reason)
    )


def _kind(a: Array, b: Array) -> str:
    text = set("OSUT")
    if a.dtype != b.dtype and not {a.dtype.kind, b.dtype.kind} <= text:
        return f"dtype is {b.dtype}, not {a.dtype}"
    return f"shape is {list(b.shape)}, not {list(a.shape)}" if a.shape != b.shape else ""


def _is_mask(a: Array) -> bool:
    return bool(a.dtype.kind in "iu" and np.isin(a, (0, 1)).all())


def _exact(a: Array, b: Array, step: int = 0) -> Difference:
    """Compare elements that must be equal; integers may be ``step`` apart."""
    same = np.asarray(a == b)
    wrong = int(a.size - np.count_nonzero(same))
    if not wrong:
        return Difference(agrees=True, dtype=str(a.dtype), shape=a.shape, size=a.size, compared=a.size > 0)
    worst = tuple(int(i) for i in np.argwhere(~same)[0])
    off = 1.0
    if a.dtype.kind in "iu":
        off = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
    if off <= step:
        return Difference(
            agrees=True, dtype=str(a.dtype), shape=a.shape, max_abs=off, size=a.size, worst=worst,
            note=f"{wrong} of {a.size} elements differ by one quantization step",
        )  # fmt: skip
    reason = f"{wrong} of {a.size} elements differ; at {list(worst)} {b[worst]}, not {a[worst]}"
    return Difference(
        agrees=False, reason=reason, dtype=str(a.dtype), shape=a.shape, max_abs=off, wrong=wrong, size=a.size,
        worst=worst,
    )  # fmt: skip


def _floats(a: Array, b: Array, allowed: Tolerance) -> Difference:
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    nan_agrees = bool(np.array_equal(np.isnan(x), np.isnan(y)))
    infinite = np.isinf(x) | np.isinf(y)
    inf_agrees = bool(np.array_equal(x[infinite], y[infinite], equal_nan=True))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        off = np.where(finite, np.abs(x - y), 0.0)
        relative = np.where(off > 0, off / np.abs(x), 0.0)
        relative[~np.isfinite(relative)] = 0.0  # relative to zero the difference is undefined
        good = np.where(finite, off <= allowed.atol + allowed.rtol * np.abs(x), (x == y) | (np.isnan(x) & np.isnan(y)))
        counted = finite & (off > 0) & (allowed.rtol * np.abs(x) >= allowed.atol)
    wrong = int(a.size - np.count_nonzero(good))
    ranked = np.where(finite, off, np.where(good, 0.0, np.inf))
    worst = tuple(int(i) for i in np.unravel_index(int(ranked.argmax()), a.shape)) if a.size and ranked.any() else ()
    reason = ""
    if wrong:
        reason = f"{wrong} of {a.size} elements differ, at most by {ranked.max():.3g}; "
        reason += f"at {list(worst)} {b[worst]:.6g}, not {a[worst]:.6g}"
    return Difference(
        agrees=not wrong, reason=reason, dtype=str(a.dtype), shape=a.shape, rtol=allowed.rtol, atol=allowed.atol,
        max_abs=float(off.max(initial=0.0)), max_rel=float(relative.max(initial=0.0)),
        max_ulp=float(_steps(a[counted], b[counted]).max(initial=0)), wrong=wrong, size=a.size, nan_agrees=nan_agrees,
        inf_agrees=inf_agrees, worst=worst, histogram=_histogram(off), rows=_rows(ranked),
        compared=wrong > 0 or bool(finite.any()),
    )  # fmt: skip


def _rows(off: Array) -> tuple[float, ...]:
    """Return the largest difference of each step of a sequence; where elements are wrong in kind it is infinite."""
    if off.ndim != 3 or not off.size:
        return ()
    steps = off.max(axis=(1, 2))
    return tuple(float(part.max()) for part in np.array_split(steps, min(len(steps), _MOST_ROWS)))


def _steps(a: Array, b: Array) -> Array:
    """Return how many steps from one float to the next lie between elements, at most 2^32 for float32."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    sign = unsigned.type(1 << (8 * a.dtype.itemsize - 1))

    def rank(values: Array) -> Array:
        # Bits of positive floats have the order of the floats; those of negative ones, without the sign, the reverse.
        bits = values.astype(values.dtype.newbyteorder("=")).view(unsigned)
        ranks: Array = np.where(bits & sign, sign - (bits & ~sign), sign + bits)
        return ranks

    one, other = rank(a), rank(b)
    distances: Array = np.maximum(one, other) - np.minimum(one, other)
    return distances


def _histogram(off: Array) -> tuple[int, ...]:
    """Return counts by power of ten: bin ``k`` holds differences around ``10 ** (k - 20)``; zeros are in bin 0."""
    flat, counts = off.ravel(), np.zeros(_BINS, np.int64)
    for start in range(0, flat.size, _BLOCK):
        with np.errstate(divide="ignore"):
            power = np.floor(np.log10(flat[start : start + _BLOCK]))
        place = np.clip(np.where(np.isfinite(power), power + 20, 0), 0, _BINS - 1).astype(int)
        counts += np.bincount(place, minlength=_BINS)
    return tuple(counts.tolist())


def first_row(expected: Array | Int8Tensor, actual: Array | Int8Tensor, **options: Any) -> int | None:
    """Return the first index along axis 0 whose rows disagree: the timestep, for sequences. None if all agree."""
    a = expected.data if isinstance(expected, Int8Tensor) else expected
    b = actual.data if isinstance(actual, Int8Tensor) else actual
    if a.shape != b.shape or a.dtype != b.dtype or not a.ndim:
        return None
    return next((t for t in range(a.shape[0]) if not compare(a[t], b[t], **options).agrees), None)
