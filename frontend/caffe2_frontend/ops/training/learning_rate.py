"""LearningRate: a base rate times a policy's factor for the iteration. All policies compute a float scalar."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import Operand, add, div, mul, scalar, sub
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import DOUBLE, FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("learning_rate")

_FOREVER: Final = 10_000_000


@dataclass(frozen=True)
class _Schedule:
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


def _fixed(schedule: _Schedule) -> Value:
    """fixed: 1."""
    return schedule.const(1.0)


def _alter(schedule: _Schedule) -> Value:
    """alter: 1 for ``active_period`` iterations and 0 for ``inactive_period``, in turn; ``active_first=1``."""
    active_first = schedule.op.args.flag(f"{schedule.prefix}active_first", default=True)
    active, inactive = schedule.integer("active_period", -1), schedule.integer("inactive_period", -1)
    if active + inactive == 0:
        schedule.op.unsupported("the sum of active_period and inactive_period must not be 0", code="invalid-argument")
    position = schedule.op.emit("Mod", schedule.iteration, schedule.op.const(active + inactive, np.int64), fmod=1)
    first = schedule.op.emit("Less", position, schedule.op.const(active if active_first else inactive, np.int64))
    return cast(schedule.op, first if active_first else schedule.op.emit("Not", first), FLOAT)


def _hill(schedule: _Schedule) -> Value:
    """hill: linear warm-up, then inverse decay down to ``end_multiplier``."""
    limit = schedule.integer("num_iter")
    rising = _linear(schedule, schedule.iteration, schedule.number("start_multiplier"), limit)
    falling = _inverse(schedule, schedule.since(limit), schedule.number("gamma"), schedule.number("power"))
    bounded = schedule.op.emit("Max", falling, schedule.const(schedule.number("end_multiplier")))
    return schedule.where(schedule.before(limit), rising, bounded)


def _slope(schedule: _Schedule) -> Value:
    """slope: ``multiplier_1``, then a linear change that reaches ``multiplier_2`` at ``num_iter_2``."""
    start, end = schedule.integer("num_iter_1"), schedule.divisor("num_iter_2")
    high, low = schedule.number("multiplier_1"), schedule.number("multiplier_2")
    if start == end:
        schedule.op.unsupported(f"num_iter_1 and num_iter_2 must differ, not both be {start}", code="invalid-argument")
    down = add(
        schedule.op,
        div(schedule.op, mul(schedule.op, schedule.as_float(schedule.since(start)), low - high), float(end - start)),
        high,
    )
    return schedule.where(schedule.before(start), high, schedule.op.emit("Max", schedule.const(low), down))


def _step(schedule: _Schedule) -> Value:
    """step: ``gamma ** (iteration // stepsize)``."""
    steps = div(schedule.op, schedule.iteration, schedule.divisor("stepsize"))
    return schedule.power(schedule.number("gamma"), schedule.as_float(steps))


def _exp(schedule: _Schedule) -> Value:
    """exp: ``gamma ** iteration``."""
    return schedule.power(schedule.number("gamma"), schedule.as_float(schedule.iteration))


def _gate(schedule: _Schedule) -> Value:
    """gate: ``multiplier_1`` for ``num_iter`` iterations, then ``multiplier_2``."""
    return schedule.where(
        schedule.before(schedule.integer("num_iter")),
        schedule.number("multiplier_1", 1.0),
        schedule.number("multiplier_2", 1.0),
    )


def _inv(schedule: _Schedule) -> Value:
    """inv: ``(1 + gamma * iteration) ** -power``."""
    return _inverse(schedule, schedule.iteration, schedule.number("gamma"), schedule.number("power"))


def _poly(schedule: _Schedule) -> Value:
    """poly: ``(1 - iteration / max_iter) ** power``."""
    # Caffe2 stores max_iter as an unsigned integer: -1, the default, is its maximum.
    limit = schedule.integer("max_iter", -1) % 2**64
    remaining = sub(schedule.op, 1.0, div(schedule.op, schedule.as_float(schedule.iteration), float(limit)))
    return schedule.power(remaining, schedule.number("power"))


def _linear_warmup(schedule: _Schedule) -> Value:
    """linearWarmup: from ``start_multiplier`` to 1 within ``num_iter`` iterations."""
    return _linear(schedule, schedule.iteration, schedule.number("start_multiplier"), schedule.integer("num_iter"))


def _constant_warmup(schedule: _Schedule) -> Value:
    """constantWarmup: ``multiplier`` for ``num_iter`` iterations, then 1."""
    return schedule.where(schedule.before(schedule.integer("num_iter")), schedule.number("multiplier", 0.5), 1.0)


def _piece_warmup(schedule: _Schedule) -> Value:
    """pieceWarmup: ``m1`` before iteration ``n1``, ``m2`` before ``n2``, then ``m3``."""
    later = schedule.where(
        schedule.before(schedule.integer("n2")), schedule.number("m2", 0.5), schedule.number("m3", 0.5)
    )
    return schedule.where(schedule.before(schedule.integer("n1")), schedule.number("m1", 0.5), later)


def _cyclical(schedule: _Schedule) -> Value:
    """cyclical: a triangle between the base rate and ``max_lr``."""
    return _triangle(
        schedule,
        schedule.iteration,
        schedule.number("max_lr", 0.005),
        schedule.divisor("stepsize"),
        schedule.number("decay", 1.0),
    )


def _cosine(schedule: _Schedule) -> Value:
    """cosine: half cosines from ``max_lr`` to ``min_lr``."""
    return _cosine_from(schedule, schedule.iteration, "", schedule.integer("period", 50))


def _constant_then_linear_warmup(schedule: _Schedule) -> Value:
    """constantThenLinearWarmup: see _warmup; then 1."""
    return _warmup(schedule, lambda _: schedule.const(1.0))


def _composite_cyclical(schedule: _Schedule) -> Value:
    """compositeCyclical: see _warmup; then cyclical, counted from there."""
    limit, size = schedule.number("cyclical_max_lr", 0.05), schedule.divisor("cyclical_step_size", 1_000_000)
    decay = schedule.number("cyclical_decay", 1.0)
    return _warmup(schedule, lambda start: _triangle(schedule, schedule.since(start), limit, size, decay))


def _composite_cosine(schedule: _Schedule) -> Value:
    """compositeCosine: see _warmup; then cosine, counted from there."""
    return _warmup(
        schedule,
        lambda start: _cosine_from(schedule, schedule.since(start), "cosine_", schedule.integer("cosine_period", 50)),
    )


def _composite(schedule: _Schedule) -> Value:
    """composite: policies one after another, each for a number of iterations.

    Each policy sees the iteration of the whole run, not that since its own start.
    """
    counts = schedule.op.args.integers("sub_policy_num_iters", default=())
    if not counts or min(counts) <= 0:
        schedule.op.unsupported("sub_policy_num_iters must hold positive integers", code="invalid-argument")
    starts = np.cumsum([1, *counts[:-1]]).tolist()
    factors = [_sub_policy(schedule, index) for index in range(len(counts))]
    result = factors[0]
    for start, factor in zip(starts[1:], factors[1:], strict=True):
        result = schedule.where(schedule.before(start), result, factor)
    return result


def _sub_policy(schedule: _Schedule, index: int) -> Value:
    """Return the factor of policy ``index`` of a composite, times its ``lr_scale``."""
    inner = _Schedule(schedule.op, f"sub_policy_{index}_", schedule.base, schedule.iteration)
    policy = schedule.op.args.text(f"{inner.prefix}policy", default="")
    if policy == "composite":
        schedule.op.unsupported("sub-policies must not be composite themselves", code="invalid-argument")
    return mul(schedule.op, _factor(inner, policy), inner.number("lr_scale", 1.0))


_POLICIES: Final[dict[str, Callable[[_Schedule], Value]]] = {
    "fixed": _fixed,
    "alter": _alter,
    "hill": _hill,
    "slope": _slope,
    "step": _step,
    "exp": _exp,
    "gate": _gate,
    "inv": _inv,
    "poly": _poly,
    "linearWarmup": _linear_warmup,
    "constantWarmup": _constant_warmup,
    "pieceWarmup": _piece_warmup,
    "composite": _composite,
    "cyclical": _cyclical,
    "constantThenLinearWarmup": _constant_then_linear_warmup,
    "compositeCyclical": _composite_cyclical,
    "cosine": _cosine,
    "compositeCosine": _composite_cosine,
}


def _linear(schedule: _Schedule, iteration: Value, start: float, limit: int) -> Value:
    """Rise linearly from ``start`` to 1 within ``limit`` iterations, then stay."""
    rising = add(
        schedule.op, mul(schedule.op, schedule.as_float(iteration), (1.0 - start) / limit if limit else math.inf), start
    )
    return schedule.where(schedule.op.emit("Less", iteration, schedule.op.const(limit, np.int64)), rising, 1.0)


def _inverse(schedule: _Schedule, iteration: Value, gamma: float, power: float) -> Value:
    """Return ``(1 + gamma * iteration) ** -power``."""
    return schedule.power(add(schedule.op, mul(schedule.op, schedule.as_float(iteration), gamma), 1.0), -power)


def _triangle(schedule: _Schedule, iteration: Value, limit: float, size: int, decay: float) -> Value:
    """Rise to ``limit`` within ``size`` iterations and fall again, each cycle's height times ``decay``.

    (L. Smith, "Cyclical Learning Rates for Training Neural Networks", 2015.)
    """
    op = schedule.op
    cycle = div(op, iteration, 2 * size)
    # The position in the cycle, from -1 through 0 at the peak to 1.
    position = sub(
        op, div(op, schedule.as_float(iteration), float(size)), schedule.as_float(add(op, mul(op, cycle, 2), 1))
    )
    height = op.emit("Max", sub(op, 1.0, op.emit("Abs", position)), schedule.const(0.0))
    ratio = abs(limit) / abs(schedule.base) - 1.0 if schedule.base else math.inf
    return add(op, mul(op, height, ratio, schedule.power(decay, schedule.as_float(cycle))), 1.0)


def _cosine_from(schedule: _Schedule, iteration: Value, prefix: str, period: int) -> Value:
    """Fall along half a cosine from the maximum to the minimum rate, and start again.

    Each period is ``t_mult`` times as long as the one before, and its rates are ``lr_shrink`` times as high. (I.
    Loshchilov and F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2016.)
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
        cycle = op.emit("Floor", div(op, op.emit("Log", scaled), math.log(growth)))
        grown = op.emit("Pow", op.const(growth, np.float64), cycle)
        length = mul(op, grown, float(period))
        position = sub(op, now, mul(op, sub(op, 1.0, grown), period / (1.0 - growth)))
    angle = cast(op, mul(op, div(op, position, length), math.pi), FLOAT)
    wave = add(op, mul(op, add(op, op.emit("Cos", angle), 1.0), (high - low) / 2), low)
    return mul(op, wave, schedule.power(shrink, schedule.as_float(cycle)))


def _warmup(schedule: _Schedule, after: Callable[[int], Value]) -> Value:
    """Hold a constant factor, rise linearly to 1, then continue with ``after``, given the iteration of its start."""
    start = schedule.number("start_warmup_multiplier", 0.1)
    constant = schedule.integer("constant_warmup_num_iter", _FOREVER)
    linear = schedule.integer("linear_warmup_num_iter", _FOREVER)
    rising = _linear(schedule, schedule.since(constant), start, linear)
    warm = schedule.where(schedule.before(constant), start, rising)
    return schedule.where(schedule.before(constant + linear), warm, after(constant + linear))


def _factor(schedule: _Schedule, policy: str) -> Value:
    """Return the factor of a policy."""
    if policy not in _POLICIES:
        schedule.op.unsupported(
            f"policy must be one of {', '.join(_POLICIES)}, not {policy!r}", code="invalid-argument"
        )
    return _POLICIES[policy](schedule)


@family.converts("LearningRate", expects={0: TensorInfo(ir.DataType.INT64, (1,))})
def learning_rate(op: Op) -> Value:
    """LearningRate(iteration; base_lr, policy, ...) -> lr.

    The policies and their arguments are listed in _POLICIES; the arguments and defaults are those of their functions.
    """
    base = op.args.number("base_lr")
    iteration = op.input(0)
    if op.rank(iteration):
        flat = op.emit("Reshape", iteration, op.const([-1], np.int64))
        iteration = op.emit("Gather", flat, op.const(0, np.int64))
    return mul(op, _factor(_Schedule(op, "", base, scalar(op, iteration)), op.args.text("policy")), base)
