"""LearningRate: a base rate times a policy's factor for the iteration. All policies compute a float scalar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.first_element import first_element
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.training.schedule import Schedule, cosine, inverse_decay, linear, triangle, warm_up

family = Family("learning_rate")


def _fixed(schedule: Schedule) -> Value:
    """fixed: 1."""
    return schedule.const(1.0)


def _alter(schedule: Schedule) -> Value:
    """alter: 1 for ``active_period`` iterations and 0 for ``inactive_period``, in turn; ``active_first=1``."""
    active_first = schedule.op.args.flag(f"{schedule.prefix}active_first", default=True)
    active, inactive = schedule.integer("active_period", -1), schedule.integer("inactive_period", -1)
    if active + inactive == 0:
        schedule.op.unsupported("the sum of active_period and inactive_period must not be 0", code="invalid-argument")
    position = schedule.op.emit("Mod", schedule.iteration, schedule.op.const(active + inactive, np.int64), fmod=1)
    first = schedule.op.emit("Less", position, schedule.op.const(active if active_first else inactive, np.int64))
    return cast(schedule.op, first if active_first else schedule.op.emit("Not", first), FLOAT)


def _hill(schedule: Schedule) -> Value:
    """hill: linear warm-up, then inverse decay down to ``end_multiplier``."""
    limit = schedule.integer("num_iter")
    rising = linear(schedule, schedule.iteration, schedule.number("start_multiplier"), limit)
    falling = inverse_decay(schedule, schedule.since(limit), schedule.number("gamma"), schedule.number("power"))
    bounded = schedule.op.emit("Max", falling, schedule.const(schedule.number("end_multiplier")))
    return schedule.where(schedule.before(limit), rising, bounded)


def _slope(schedule: Schedule) -> Value:
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


def _step(schedule: Schedule) -> Value:
    """step: ``gamma ** (iteration // stepsize)``."""
    steps = div(schedule.op, schedule.iteration, schedule.divisor("stepsize"))
    return schedule.power(schedule.number("gamma"), schedule.as_float(steps))


def _exp(schedule: Schedule) -> Value:
    """exp: ``gamma ** iteration``."""
    return schedule.power(schedule.number("gamma"), schedule.as_float(schedule.iteration))


def _gate(schedule: Schedule) -> Value:
    """gate: ``multiplier_1`` for ``num_iter`` iterations, then ``multiplier_2``."""
    return schedule.where(
        schedule.before(schedule.integer("num_iter")),
        schedule.number("multiplier_1", 1.0),
        schedule.number("multiplier_2", 1.0),
    )


def _inv(schedule: Schedule) -> Value:
    """inv: ``(1 + gamma * iteration) ** -power``."""
    return inverse_decay(schedule, schedule.iteration, schedule.number("gamma"), schedule.number("power"))


def _poly(schedule: Schedule) -> Value:
    """poly: ``(1 - iteration / max_iter) ** power``."""
    # Caffe2 stores max_iter as an unsigned integer: -1, the default, is its maximum.
    limit = schedule.integer("max_iter", -1) % 2**64
    remaining = sub(schedule.op, 1.0, div(schedule.op, schedule.as_float(schedule.iteration), float(limit)))
    return schedule.power(remaining, schedule.number("power"))


def _linear_warmup(schedule: Schedule) -> Value:
    """linearWarmup: from ``start_multiplier`` to 1 within ``num_iter`` iterations."""
    return linear(schedule, schedule.iteration, schedule.number("start_multiplier"), schedule.integer("num_iter"))


def _constant_warmup(schedule: Schedule) -> Value:
    """constantWarmup: ``multiplier`` for ``num_iter`` iterations, then 1."""
    return schedule.where(schedule.before(schedule.integer("num_iter")), schedule.number("multiplier", 0.5), 1.0)


def _piece_warmup(schedule: Schedule) -> Value:
    """pieceWarmup: ``m1`` before iteration ``n1``, ``m2`` before ``n2``, then ``m3``."""
    later = schedule.where(
        schedule.before(schedule.integer("n2")), schedule.number("m2", 0.5), schedule.number("m3", 0.5)
    )
    return schedule.where(schedule.before(schedule.integer("n1")), schedule.number("m1", 0.5), later)


def _cyclical(schedule: Schedule) -> Value:
    """cyclical: a triangle between the base rate and ``max_lr``."""
    return triangle(
        schedule,
        schedule.iteration,
        schedule.number("max_lr", 0.005),
        schedule.divisor("stepsize"),
        schedule.number("decay", 1.0),
    )


def _cosine(schedule: Schedule) -> Value:
    """cosine: half cosines from ``max_lr`` to ``min_lr``."""
    return cosine(schedule, schedule.iteration, "", schedule.integer("period", 50))


def _constant_then_linear_warmup(schedule: Schedule) -> Value:
    """constantThenLinearWarmup: see warm_up; then 1."""
    return warm_up(schedule)


def _composite_cyclical(schedule: Schedule) -> Value:
    """compositeCyclical: see warm_up; then cyclical, counted from there."""
    limit, size = schedule.number("cyclical_max_lr", 0.05), schedule.divisor("cyclical_step_size", 1_000_000)
    decay = schedule.number("cyclical_decay", 1.0)
    return warm_up(schedule, lambda start: triangle(schedule, schedule.since(start), limit, size, decay))


def _composite_cosine(schedule: Schedule) -> Value:
    """compositeCosine: see warm_up; then cosine, counted from there."""
    return warm_up(
        schedule,
        lambda start: cosine(schedule, schedule.since(start), "cosine_", schedule.integer("cosine_period", 50)),
    )


def _composite(schedule: Schedule) -> Value:
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


def _sub_policy(schedule: Schedule, index: int) -> Value:
    """Return the factor of policy ``index`` of a composite, times its ``lr_scale``."""
    inner = Schedule(schedule.op, f"sub_policy_{index}_", schedule.base, schedule.iteration)
    policy = schedule.op.args.text(f"{inner.prefix}policy", default="")
    if policy == "composite":
        schedule.op.unsupported("sub-policies must not be composite themselves", code="invalid-argument")
    return mul(schedule.op, _factor(inner, policy), inner.number("lr_scale", 1.0))


_POLICIES: Final[dict[str, Callable[[Schedule], Value]]] = {
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


def _factor(schedule: Schedule, policy: str) -> Value:
    """Return the factor of a policy."""
    if policy not in _POLICIES:
        schedule.op.unsupported(
            f"policy must be one of {', '.join(_POLICIES)}, not {policy!r}", code="invalid-argument"
        )
    return _POLICIES[policy](schedule)


@family.converts("LearningRate", expects={0: TensorInfo(ir.DataType.INT64, (1,))})
def learning_rate(op: Op) -> Value:
    """LearningRate(iteration; base_lr, policy, ...) -> lr.

    The other arguments belong to the policy: see its function in _POLICIES, which names them. Their defaults are 0
    unless the function gives another.
    """
    base = op.args.number("base_lr")
    iteration = first_element(op, op.input(0))
    return mul(op, _factor(Schedule(op, "", base, iteration), op.args.text("policy")), base)
