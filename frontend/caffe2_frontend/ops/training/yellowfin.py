"""YellowFin: momentum SGD that tunes its learning rate and momentum by the gradients that it has seen.

(J. Zhang and I. Mitliagkas, "YellowFin and the Art of Momentum Tuning", 2017.) From moving averages it estimates the
range of curvatures [h_min, h_max], the variance C of the gradients and the distance D to the optimum, and chooses the
momentum mu and the rate alpha that minimize the expected squared distance after one step of SGD on a quadratic:
``mu * D ** 2 + alpha ** 2 * C`` subject to ``sqrt(mu) >= (sqrt(h_max / h_min) - 1) / (sqrt(h_max / h_min) + 1)`` and
``alpha = (1 - sqrt(mu)) ** 2 / h_min``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import (
    add,
    aligned,
    blend,
    div,
    mul,
    scalar,
    sqrt,
    square,
    sub,
    total,
)
from caffe2_frontend.emit.first_element import first_element
from caffe2_frontend.emit.shapes import as_vector, cast, indices, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("yellowfin")

_ITERATION = 9
_SCALARS = 5  # in scalars_memory


@dataclass(frozen=True)
class _Averages:
    """Exponential moving averages.

    Attributes:
        op: the operator under conversion.
        beta: the weight of the old average.
        factor: the correction of the bias towards the initial 0; None without zero_debias.
    """

    op: Op
    beta: float
    factor: Value | None

    def update(self, old: Value, new: Value) -> tuple[Value, Value]:
        """Return the average after a step, and the same with its bias corrected."""
        average = blend(self.op, old, new, self.beta)
        return average, average if self.factor is None else mul(self.op, average, self.factor)


def _operand(_: OpView, index: int) -> TensorInfo:
    """Describe operands: float tensors, and the iteration."""
    if index == _ITERATION:
        return TensorInfo(ir.DataType.INT64, (1,))
    return TensorInfo(ir.DataType.FLOAT)


@family.converts("YellowFin", expects=_operand)
def yellowfin(op: Op) -> tuple[Value, ...]:
    """YellowFin(param, moment, lr_avg, mu_avg, curv_win, g_avg, g2_avg, scalars_memory, grad, iter; ...) -> 8 outputs.

    The outputs are the first eight operands, updated. Arguments: curv_win_width=20, nesterov=0, zero_debias=1,
    epsilon=1e-6 and beta=0.999. ``scalars_memory`` holds five moving averages: of the gradient's norm, of its square,
    of the logarithms of h_min and h_max, and of D. Parameters move with the rate and momentum of the step before.
    """
    window = op.args.integer("curv_win_width", default=20)
    nesterov = op.args.flag("nesterov", default=False)
    debias = op.args.flag("zero_debias", default=True)
    epsilon, beta = op.args.number("epsilon", default=1e-6), op.args.number("beta", default=0.999)
    if not epsilon >= 0:  # nor a NaN
        op.unsupported(f"epsilon must not be negative: {epsilon}", code="invalid-argument")
    param, moment, rate, factor, curvatures, mean, mean_square, memory, grad = op.inputs[:_ITERATION]
    iteration = first_element(op, op.input(_ITERATION))
    power = op.emit("Pow", op.const(beta, np.float32), cast(op, iteration, ir.DataType.FLOAT))
    averages = _Averages(op, beta, op.emit("Reciprocal", sub(op, 1.0, power)) if debias else None)

    # The step, with the rate and momentum of the previous iteration.
    new_moment = add(op, mul(op, moment, scalar(op, factor)), mul(op, grad, scalar(op, rate)))
    step = new_moment
    if nesterov:
        lookahead = mul(op, new_moment, add(op, scalar(op, factor), 1.0))
        step = sub(op, lookahead, mul(op, moment, scalar(op, factor)))

    # Norms, curvatures and the variance are at least epsilon.
    floor = op.const(epsilon, np.float32)
    old = [
        scalar(op, v) for v in op.emit("Split", as_vector(op, memory), axis=0, num_outputs=_SCALARS, outputs=_SCALARS)
    ]
    new_mean, center = averages.update(mean, grad)
    new_mean_square, _ = averages.update(mean_square, square(op, grad))
    norm2 = op.emit("Max", total(op, square(op, grad)), floor)
    norm2_average, norm2_now = averages.update(old[1], norm2)
    norm_average, _ = averages.update(old[0], sqrt(op, norm2))
    new_curvatures, low, high = _curvatures(op, curvatures, norm2, iteration, window)
    low_average, low_now = averages.update(old[2], low)
    high_average, high_now = averages.update(old[3], high)
    low_now, high_now = (op.emit("Max", op.emit("Exp", v), floor) for v in (low_now, high_now))
    variance = op.emit("Max", sub(op, norm2_now, total(op, square(op, center))), floor)
    distance_average, distance = averages.update(old[4], div(op, norm_average, norm2_average))

    # In the first iteration the averages are not meaningful yet: keep rate and momentum.
    tuned = _tuned(op, low_now, high_now, variance, distance)
    later = op.emit("Less", op.const(1, np.int64), iteration)
    new_rate, new_factor = (
        op.emit("Where", later, averages.update(before, now)[0], before)
        for before, now in zip((rate, factor), tuned, strict=True)
    )
    scalars = (norm_average, norm2_average, low_average, high_average, distance_average)
    new_memory = aligned(op, op.emit("Concat", *(unsqueeze(op, v, [0]) for v in scalars), axis=0), memory)
    state = (new_rate, new_factor, new_curvatures, new_mean, new_mean_square, new_memory)
    return sub(op, param, step), new_moment, *state


def _curvatures(op: Op, window: Value, norm2: Value, iteration: Value, width: int) -> tuple[Value, Value, Value]:
    """Update the window of curvatures, and return it with the minimum and the maximum in it.

    A curvature is the squared norm of the gradient. The window is a ring of the logarithms of the last ``width`` ones;
    the elements that are not written yet do not count.
    """
    slots = indices(op, width)
    current = op.emit("Mod", sub(op, iteration, 1), op.const(width, np.int64))
    new = op.emit("Where", op.emit("Equal", slots, current), op.emit("Log", norm2), as_vector(op, window))
    written = op.emit("Less", slots, iteration)
    extremes = [
        op.emit(kind, op.emit("Where", written, new, op.const(neutral, np.float32)), keepdims=0)
        for kind, neutral in (("ReduceMin", np.inf), ("ReduceMax", -np.inf))
    ]
    return aligned(op, new, window), extremes[0], extremes[1]


def _tuned(op: Op, low: Value, high: Value, variance: Value, distance: Value) -> tuple[Value, Value]:
    """Return learning rate and momentum for a range of curvatures.

    Without the constraint, ``x = sqrt(mu)`` is the root of ``p * x = (1 - x) ** 3``, where
    ``p = (D * h_min) ** 2 / (2 * C)``. In ``y = x - 1`` that is the depressed cubic ``y ** 3 + p * y + p = 0``, which
    Cardano's formula solves: ``y = w - p / (3 * w)``, where ``w ** 3 = -(p + sqrt(p ** 2 + 4 / 27 * p ** 3)) / 2``.
    """
    sqrt_condition = sqrt(op, div(op, high, low))
    limit = div(op, sub(op, sqrt_condition, 1.0), add(op, sqrt_condition, 1.0))
    p = div(op, square(op, mul(op, distance, low)), mul(op, variance, 2.0))
    discriminant = sqrt(op, add(op, square(op, p), mul(op, p, p, p, 4.0 / 27.0)))
    cube = mul(op, add(op, discriminant, p), -0.5)
    # The cube is negative, and so is its real root w.
    w = mul(op, op.emit("Pow", op.emit("Abs", cube), op.const(1.0 / 3.0, np.float32)), -1.0)
    root = add(op, sub(op, w, div(op, div(op, p, 3.0), w)), 1.0)
    momentum = op.emit("Max", square(op, root), square(op, limit))
    return div(op, square(op, sub(op, 1.0, sqrt(op, momentum))), low), momentum
