"""LearningRate: a base rate times a policy's factor for the iteration."""

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
    """A policy's arguments, which in a composite have a prefix, and the iteration (int64, a scalar)."""

    op: Op
    prefix: str
    base: float
    iteration: Value

    def number(self, name: str, default: float = 0.0) -> float:
        return self.op.args.number(self.prefix + name, default=default)

    def integer(self, name: str, default: int = 0) -> int:
        return self.op.args.integer(self.prefix + name, default=default)

    def period(self, name: str, default: int = 0) -> int:
        """An integer that something is divided by."""
        value = self.integer(name, default)
        if value == 0:
            self.op.unsupported(f"{self.prefix}{name} has to be another number than 0", code="invalid-argument")
        return value

    def const(self, value: float) -> Value:
        return self.op.const(value, np.float32)

    def since(self, start: int) -> Value:
        """How many iterations have passed since one."""
        return sub(self.op, self.iteration, start) if start else self.iteration

    def before(self, limit: int) -> Value:
        return self.op.emit("Less", self.iteration, self.op.const(limit, np.int64))

    def choose(self, condition: Value, then: Operand, otherwise: Operand) -> Value:
        a, b = (v if isinstance(v, Value) else self.const(v) for v in (then, otherwise))
        return self.op.emit("Where", condition, a, b)

    def real(self, value: Value) -> Value:
        return cast(self.op, value, FLOAT)

    def power(self, base: Operand, exponent: Operand) -> Value:
        a, b = (v if isinstance(v, Value) else self.const(v) for v in (base, exponent))
        return self.op.emit("Pow", a, b)


def _fixed(at: _Schedule) -> Value:
    return at.const(1.0)


def _alter(at: _Schedule) -> Value:
    active_first = at.op.args.flag(f"{at.prefix}active_first", default=True)
    active, inactive = at.integer("active_period", -1), at.integer("inactive_period", -1)
    if active + inactive == 0:
        at.op.unsupported("active_period and inactive_period are 0 together", code="invalid-argument")
    place = at.op.emit("Mod", at.iteration, at.op.const(active + inactive, np.int64), fmod=1)
    first = at.op.emit("Less", place, at.op.const(active if active_first else inactive, np.int64))
    return cast(at.op, first if active_first else at.op.emit("Not", first), FLOAT)


def _hill(at: _Schedule) -> Value:
    """Linear warm-up, then an inverse decay down to a bound."""
    limit = at.integer("num_iter")
    rising = _linear(at, at.iteration, at.number("start_multiplier"), limit)
    falling = _inverse(at, at.since(limit), at.number("gamma"), at.number("power"))
    bounded = at.op.emit("Max", falling, at.const(at.number("end_multiplier")))
    return at.choose(at.before(limit), rising, bounded)


def _slope(at: _Schedule) -> Value:
    start, end = at.integer("num_iter_1"), at.period("num_iter_2")
    high, low = at.number("multiplier_1"), at.number("multiplier_2")
    if start == end:
        at.op.unsupported("num_iter_1 and num_iter_2 are equal", code="invalid-argument")
    down = add(at.op, div(at.op, mul(at.op, at.real(at.since(start)), low - high), float(end - start)), high)
    return at.choose(at.before(start), high, at.op.emit("Max", at.const(low), down))


def _step(at: _Schedule) -> Value:
    steps = div(at.op, at.iteration, at.period("stepsize"))
    return at.power(at.number("gamma"), at.real(steps))


def _exp(at: _Schedule) -> Value:
    return at.power(at.number("gamma"), at.real(at.iteration))


def _gate(at: _Schedule) -> Value:
    return at.choose(at.before(at.integer("num_iter")), at.number("multiplier_1", 1.0), at.number("multiplier_2", 1.0))


def _inv(at: _Schedule) -> Value:
    return _inverse(at, at.iteration, at.number("gamma"), at.number("power"))


def _poly(at: _Schedule) -> Value:
    # The limit is kept as an unsigned number: -1 is the largest there is.
    limit = at.integer("max_iter", -1) % 2**64
    rest = sub(at.op, 1.0, div(at.op, at.real(at.iteration), float(limit)))
    return at.power(rest, at.number("power"))


def _linear_warmup(at: _Schedule) -> Value:
    return _linear(at, at.iteration, at.number("start_multiplier"), at.integer("num_iter"))


def _constant_warmup(at: _Schedule) -> Value:
    return at.choose(at.before(at.integer("num_iter")), at.number("multiplier", 0.5), 1.0)


def _piece_warmup(at: _Schedule) -> Value:
    later = at.choose(at.before(at.integer("n2")), at.number("m2", 0.5), at.number("m3", 0.5))
    return at.choose(at.before(at.integer("n1")), at.number("m1", 0.5), later)


def _cyclical(at: _Schedule) -> Value:
    return _triangle(at, at.iteration, at.number("max_lr", 0.005), at.period("stepsize"), at.number("decay", 1.0))


def _cosine(at: _Schedule) -> Value:
    return _cosine_from(at, at.iteration, "", at.integer("period", 50))


def _constant_then_linear_warmup(at: _Schedule) -> Value:
    return _warmup(at, lambda _: at.const(1.0))


def _composite_cyclical(at: _Schedule) -> Value:
    limit, size = at.number("cyclical_max_lr", 0.05), at.period("cyclical_step_size", 1_000_000)
    decay = at.number("cyclical_decay", 1.0)
    return _warmup(at, lambda start: _triangle(at, at.since(start), limit, size, decay))


def _composite_cosine(at: _Schedule) -> Value:
    return _warmup(at, lambda start: _cosine_from(at, at.since(start), "cosine_", at.integer("cosine_period", 50)))


def _composite(at: _Schedule) -> Value:
    """Policies one after another, each for a number of iterations; they see the iteration counted from the start."""
    counts = at.op.args.integers("sub_policy_num_iters", default=())
    if not counts or min(counts) <= 0:
        at.op.unsupported("sub_policy_num_iters has to be numbers above 0", code="invalid-argument")
    starts = np.cumsum([1, *counts[:-1]]).tolist()
    factors = [_composed(at, index) for index in range(len(counts))]
    result = factors[0]
    for start, factor in zip(starts[1:], factors[1:], strict=True):
        result = at.choose(at.before(start), result, factor)
    return result


def _composed(at: _Schedule, index: int) -> Value:
    inner = _Schedule(at.op, f"sub_policy_{index}_", at.base, at.iteration)
    policy = at.op.args.text(f"{inner.prefix}policy", default="")
    if policy == "composite":
        at.op.unsupported("a composite policy is inside another", code="invalid-argument")
    return mul(at.op, _factor(inner, policy), inner.number("lr_scale", 1.0))


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


def _linear(at: _Schedule, iteration: Value, start: float, limit: int) -> Value:
    """From ``start`` to 1 within ``limit`` iterations."""
    rising = add(at.op, mul(at.op, at.real(iteration), (1.0 - start) / limit if limit else math.inf), start)
    return at.choose(at.op.emit("Less", iteration, at.op.const(limit, np.int64)), rising, 1.0)


def _inverse(at: _Schedule, iteration: Value, gamma: float, power: float) -> Value:
    return at.power(add(at.op, mul(at.op, at.real(iteration), gamma), 1.0), -power)


def _triangle(at: _Schedule, iteration: Value, limit: float, size: int, decay: float) -> Value:
    """Up to ``limit`` and down again within two times ``size`` iterations, each time lower by ``decay``."""
    op = at.op
    cycle = div(op, iteration, 2 * size)
    place = sub(op, div(op, at.real(iteration), float(size)), at.real(add(op, mul(op, cycle, 2), 1)))
    height = op.emit("Max", sub(op, 1.0, op.emit("Abs", place)), at.const(0.0))
    ratio = abs(limit) / abs(at.base) - 1.0 if at.base else math.inf
    return add(op, mul(op, height, ratio, at.power(decay, at.real(cycle))), 1.0)


def _cosine_from(at: _Schedule, iteration: Value, prefix: str, period: int) -> Value:
    """Half a cosine from the highest rate to the lowest, again and again; periods grow and rates shrink."""
    op = at.op
    high, low = at.number(f"{prefix}max_lr", 0.5), at.number(f"{prefix}min_lr", 0.1)
    growth, shrink = at.number(f"{prefix}t_mult", 1.0), at.number(f"{prefix}lr_shrink", 0.99)
    if period == 0:
        op.unsupported(f"{at.prefix}{prefix}period is 0", code="invalid-argument")
    now = cast(op, iteration, DOUBLE)
    if growth == 1.0:
        number = op.emit("Floor", div(op, now, float(period)))
        length: Operand = float(period)
        place = sub(op, now, mul(op, number, length))
    else:
        scaled = add(op, mul(op, now, (growth - 1.0) / period), 1.0)
        number = op.emit("Floor", div(op, op.emit("Log", scaled), math.log(growth)))
        grown = op.emit("Pow", op.const(growth, np.float64), number)
        length = mul(op, grown, float(period))
        place = sub(op, now, mul(op, sub(op, 1.0, grown), period / (1.0 - growth)))
    angle = cast(op, mul(op, div(op, place, length), math.pi), FLOAT)
    wave = add(op, mul(op, add(op, op.emit("Cos", angle), 1.0), (high - low) / 2), low)
    return mul(op, wave, at.power(shrink, at.real(number)))


def _warmup(at: _Schedule, after: Callable[[int], Value]) -> Value:
    """A constant factor, then a linear rise to 1, then what ``after`` gives from the iteration of its start."""
    start = at.number("start_warmup_multiplier", 0.1)
    constant = at.integer("constant_warmup_num_iter", _FOREVER)
    linear = at.integer("linear_warmup_num_iter", _FOREVER)
    rising = _linear(at, at.since(constant), start, linear)
    warm = at.choose(at.before(constant), start, rising)
    return at.choose(at.before(constant + linear), warm, after(constant + linear))


def _factor(at: _Schedule, policy: str) -> Value:
    if policy not in _POLICIES:
        at.op.unsupported(f"there is no learning rate policy {policy!r}", code="invalid-argument")
    return _POLICIES[policy](at)


@family.converts("LearningRate", expects={0: TensorInfo(ir.DataType.INT64, (1,))})
def learning_rate(op: Op) -> Value:
    base = op.args.number("base_lr")
    iteration = op.input(0)
    if op.rank(iteration):
        flat = op.emit("Reshape", iteration, op.const([-1], np.int64))
        iteration = op.emit("Gather", flat, op.const(0, np.int64))
    return mul(op, _factor(_Schedule(op, "", base, scalar(op, iteration)), op.args.text("policy")), base)
