"""Exact remainders of floating-point numbers, by doubling and halving the divisor.

a - trunc(a / b) * b rounds where the quotient is large. Shift and subtract does not: the divisor b is doubled while it
is at most a, which is exact; then, from the largest multiple down to b itself, each one that is at most the rest is
subtracted from it, which is exact too, since the rest is less than twice the multiple (Sterbenz's lemma).
"""

from __future__ import annotations

from caffe2_backend.emit.fill import zeros_like
from caffe2_backend.emit.loops import is_true, while_loop
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import INT32


def _any(op: Op, mask: Value, rank: int) -> Value:
    """Whether any element of a mask is true, bool []."""
    if not rank:
        return mask
    return op.emit("ReduceSum", mask.cast(INT32), axes=list(range(rank)), keepdims=0) > 0


def remainder(op: Op, a: Value, b: Value, rank: int) -> Value:
    """Return the remainder of a / b with the sign of ``a``; both are of one shape, float or double.

    NaN where ``a`` is infinite or ``b`` is zero, ``a`` where ``b`` is infinite, as C's fmod has it.
    """
    zero = op.const(0, a.dtype)
    x, y = (op.emit("Where", n < zero, -n, n) for n in (a, b))
    zeros = zeros_like(op, x, x.dtype)
    ones, nans = zeros + op.const(1, x.dtype), zeros / zeros
    x_is_finite, y_is_finite = (n - n >= zero for n in (x, y))  # infinity - infinity is NaN
    is_positive = y > zero
    is_proper = x_is_finite & (is_positive & y_is_finite)
    start, divisor = op.emit("Where", is_proper, x, zeros), op.emit("Where", is_proper, y, ones)

    def double(multiple: Value) -> tuple[Value, Value]:
        twice = multiple + multiple
        multiple = op.emit("Where", twice <= start, twice, multiple)
        return _any(op, multiple + multiple <= start, rank), multiple

    def subtract(rest: Value, multiple: Value) -> tuple[Value, Value, Value]:
        rest = op.emit("Where", rest >= multiple, rest - multiple, rest)
        is_larger = multiple > divisor
        return _any(op, is_larger, rank), rest, op.emit("Where", is_larger, multiple * 0.5, multiple)

    (largest,) = while_loop(op, is_true(op), [divisor], double)
    rest, _ = while_loop(op, is_true(op), [start, largest], subtract)
    rest = op.emit("Where", is_proper, rest, nans)
    rest = op.emit("Where", x_is_finite & (is_positive & ~y_is_finite), x, rest)
    return op.emit("Where", a < zero, -rest, rest)


def with_sign_of_divisor(op: Op, rest: Value, b: Value) -> Value:
    """Return the remainder with the sign of the divisor ``b``, which is added where signs differ; zeros get it too."""
    zero = op.const(0, b.dtype)
    is_zero, is_negative = rest.equals(zero), b < zero
    moved = op.emit("Where", (rest < zero) ^ is_negative, rest + b, rest)
    zeros = rest - rest
    return op.emit("Where", is_zero, op.emit("Where", is_negative, -zeros, zeros), moved)
