"""The building blocks of learning-rate policies: their arguments, and the curves that several of them share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from caffe2_frontend.emit.arithmetic import Operand, add, div, mul, sub
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import DOUBLE, FLOAT
from caffe2_frontend.lowering.op import Op, Value

# The default of the iteration counts of a warm-up: practically without end.
_UNLIMITED: Final = 10_000_000


@dataclass(frozen=True)
class Schedule:
    """The arguments of a policy, and the means to compute its factor.

    Attributes:
        op: the operator under conversion.
        prefix: the prefix of the policy's arguments, for one inside a composite policy.
        base: the base rate.
        iteration: the iteration, an int64 scalar.
    """

    op: Op
    prefix: str
    base: float
    iteration: Value

    def number(self, name: str, default: float = 0.0) -> float:
        """Read a number."""
        return self.op.args.number(self.prefix + name, default=default)

    def integer(self, name: str, default: int = 0) -> int:
        """Read an integer."""
        return self.op.args.integer(self.prefix + name, default=default)

    def divisor(self, name: str, default: int = 0) -> int:
        """Read an integer that something is divided by; it must not be 0."""
        value = self.integer(name, default)
        if value == 0:
            self.op.unsupported(f"{self.prefix}{name} must not be 0", code="invalid-argument")
        return value

    def const(self, value: float) -> Value:
        """Return a float constant."""
        return self.op.const(value, np.float32)

    def since(self, start: int) -> Value:
        """Return the number of iterations since iteration ``start``."""
        return sub(self.op, self.iteration, start) if start else self.iteration

    def before(self, limit: int) -> Value:
        """Return whether the iteration is below ``limit``."""
        return self.op.emit("Less", self.iteration, self.op.const(limit, np.int64))

    def where(self, condition: Value, then: Operand, otherwise: Operand) -> Value:
        """Select one of two operands, which may be numbers."""
        a, b = (v if isinstance(v, Value) else self.const(v) for v in (then, otherwise))
        return self.op.emit("Where", condition, a, b)

    def as_float(self, value: Value) -> Value:
        """Cast to float."""
        return cast(self.op, value, FLOAT)

    def power(self, base: Operand, exponent: Operand) -> Value:
        """Raise one operand to the other; either may be a number."""
        a, b = (v if isinstance(v, Value) else self.const(v) for v in (base, exponent))
        return self.op.emit("Pow", a, b)


def linear(schedule: Schedule, iteration: Value, start: float, limit: int) -> Value:
    """Rise linearly from ``start`` to 1 within ``limit`` iterations, then stay."""
    rising = add(
        schedule.op, mul(schedule.op, schedule.as_float(iteration), (1.0 - start) / limit if limit else math.inf), start
    )
    return schedule.where(schedule.op.emit("Less", iteration, schedule.op.const(limit, np.int64)), rising, 1.0)


def inverse_decay(schedule: Schedule, iteration: Value, gamma: float, power: float) -> Value:
    """Return ``(1 + gamma * iteration) ** -power``."""
    return schedule.power(add(schedule.op, mul(schedule.op, schedule.as_float(iteration), gamma), 1.0), -power)


def triangle(schedule: Schedule, iteration: Value, limit: float, size: int, decay: float) -> Value:
    """Rise to ``limit`` within ``size`` iterations and fall again, each cycle's height times ``decay``.

    (L. Smith, "Cyclical Learning Rates for Training Neural Networks", 2015.)
    """
    op = schedule.op
    cycle = div(op, iteration, 2 * size)
    # The position in the cycle, from -1 through 0 at the peak to 1; rounded as in Caffe2 for large iterations.
    end = schedule.as_float(mul(op, add(op, cycle, 1), 2))
    position = add(op, sub(op, div(op, schedule.as_float(iteration), float(size)), end), 1.0)
    height = op.emit("Max", sub(op, 1.0, op.emit("Abs", position)), schedule.const(0.0))
    ratio = abs(limit) / abs(schedule.base) - 1.0 if schedule.base else math.inf
    return add(op, mul(op, height, ratio, schedule.power(decay, schedule.as_float(cycle))), 1.0)


def cosine(schedule: Schedule, iteration: Value, prefix: str, period: int) -> Value:
    """Fall along half a cosine from the maximum to the minimum rate, and start again.

    Each period is ``t_mult`` times as long as the one before, and its rates are ``lr_shrink`` times as high.
    (I. Loshchilov and F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2016.)
    """
    op = schedule.op
    high, low = schedule.number(f"{prefix}max_lr", 0.5), schedule.number(f"{prefix}min_lr", 0.1)
    growth, shrink = schedule.number(f"{prefix}t_mult", 1.0), schedule.number(f"{prefix}lr_shrink", 0.99)
    if period == 0:
        op.unsupported(f"{schedule.prefix}{prefix}period must not be 0", code="invalid-argument")
    now = cast(op, iteration, DOUBLE)
    if growth == 1.0:
        cycle = op.emit("Floor", div(op, now, float(period)))
        length: Operand = float(period)
        position = sub(op, now, mul(op, cycle, length))
    else:
        # Period i starts at ``period * (t_mult ** i - 1) / (t_mult - 1)``: solve for the i of the iteration.
        scaled = add(op, mul(op, now, (growth - 1.0) / period), 1.0)
        with np.errstate(all="ignore"):
            log_growth = float(np.log(np.float64(growth)))  # a NaN or an infinity of a growth that is not positive
        cycle = op.emit("Floor", div(op, op.emit("Log", scaled), log_growth))
        grown = op.emit("Pow", op.const(growth, np.float64), cycle)
        length = mul(op, grown, float(period))
        position = sub(op, now, mul(op, sub(op, 1.0, grown), period / (1.0 - growth)))
    angle = cast(op, mul(op, div(op, position, length), math.pi), FLOAT)
    wave = add(op, mul(op, add(op, op.emit("Cos", angle), 1.0), (high - low) / 2), low)
    return mul(op, wave, schedule.power(shrink, schedule.as_float(cycle)))


def warm_up(schedule: Schedule, after: Callable[[int], Value] | None = None) -> Value:
    """Hold a constant factor, rise linearly to 1, and stay there, or continue with ``after``.

    ``after`` is called with the iteration at which it takes over.
    """
    start = schedule.number("start_warmup_multiplier", 0.1)
    constant_count = schedule.integer("constant_warmup_num_iter", _UNLIMITED)
    linear_count = schedule.integer("linear_warmup_num_iter", _UNLIMITED)
    end = constant_count + linear_count
    rising = linear(schedule, schedule.since(constant_count), start, linear_count)
    rising = schedule.where(schedule.before(end), rising, 1.0)
    warm = schedule.where(schedule.before(constant_count), start, rising)
    return warm if after is None else schedule.where(schedule.before(end), warm, after(end))
