"""YellowFin: momentum SGD that tunes its learning rate and momentum by the gradients it has seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, div, mul, scalar, sqrt, square, sub, total
from caffe2_frontend.emit.shapes import cast, indices, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("yellowfin")

_ITERATION = 9
_SCALARS = 5


@dataclass(frozen=True)
class _Averages:
    """How moving averages are kept: ``beta`` of the old one; ``factor`` undoes that they started at 0."""

    op: Op
    beta: float
    factor: Value | None

    def moved(self, old: Value, new: Value) -> tuple[Value, Value]:
        """The average after a step, and what it is without its start."""
        average = add(self.op, mul(self.op, old, self.beta), mul(self.op, new, 1.0 - self.beta))
        return average, average if self.factor is None else mul(self.op, average, self.factor)


def _operand(_: OpView, index: int) -> TensorInfo:
    if index == _ITERATION:
        return TensorInfo(ir.DataType.INT64, (1,))
    return TensorInfo(ir.DataType.FLOAT)


@family.converts("YellowFin", expects=_operand)
def yellowfin(op: Op) -> tuple[Value, ...]:
    """Parameter, momentum, rate, momentum's factor, window of curvatures, two averages of gradients, and scalars."""
    window = op.args.integer("curv_win_width", default=20)
    nesterov = op.args.flag("nesterov", default=False)
    debias = op.args.flag("zero_debias", default=True)
    epsilon, beta = op.args.number("epsilon", default=1e-6), op.args.number("beta", default=0.999)
    param, moment, rate, factor, curvatures, mean, mean_square, memory, grad = op.inputs[:_ITERATION]
    iteration = scalar(op, op.input(_ITERATION))
    power = op.emit("Pow", op.const(beta, np.float32), cast(op, iteration, ir.DataType.FLOAT))
    averages = _Averages(op, beta, op.emit("Reciprocal", sub(op, 1.0, power)) if debias else None)

    new_moment = add(op, mul(op, moment, scalar(op, factor)), mul(op, grad, scalar(op, rate)))
    step = new_moment
    if nesterov:
        ahead = mul(op, new_moment, add(op, scalar(op, factor), 1.0))
        step = sub(op, ahead, mul(op, moment, scalar(op, factor)))

    least = op.const(epsilon, np.float32)
    old = [scalar(op, v) for v in op.emit("Split", memory, axis=0, num_outputs=_SCALARS, outputs=_SCALARS)]
    new_mean, center = averages.moved(mean, grad)
    new_mean_square, _ = averages.moved(mean_square, square(op, grad))
    norm2 = op.emit("Max", total(op, square(op, grad)), least)
    norm2_average, norm2_now = averages.moved(old[1], norm2)
    norm_average, _ = averages.moved(old[0], sqrt(op, norm2))
    new_curvatures, low, high = _curvatures(op, curvatures, norm2, iteration, window)
    low_average, low_now = averages.moved(old[2], low)
    high_average, high_now = averages.moved(old[3], high)
    low_now, high_now = (op.emit("Max", op.emit("Exp", v), least) for v in (low_now, high_now))
    variance = op.emit("Max", sub(op, norm2_now, total(op, square(op, center))), least)
    distance_average, distance = averages.moved(old[4], div(op, norm_average, norm2_average))

    tuned = _tuned(op, low_now, high_now, variance, distance)
    first = op.emit("Less", op.const(1, np.int64), iteration)
    new_rate, new_factor = (
        op.emit("Where", first, averages.moved(before, now)[0], before)
        for before, now in zip((rate, factor), tuned, strict=True)
    )
    scalars = (norm_average, norm2_average, low_average, high_average, distance_average)
    new_memory = op.emit("Concat", *(unsqueeze(op, v, [0]) for v in scalars), axis=0)
    state = (new_rate, new_factor, new_curvatures, new_mean, new_mean_square, new_memory)
    return sub(op, param, step), new_moment, *state


def _curvatures(op: Op, window: Value, norm2: Value, iteration: Value, width: int) -> tuple[Value, Value, Value]:
    """The window with the logarithm of a squared norm in its turn, and the least and the largest in it so far."""
    places = indices(op, width)
    turn = op.emit("Mod", sub(op, iteration, 1), op.const(width, np.int64))
    new = op.emit("Where", op.emit("Equal", places, turn), op.emit("Log", norm2), window)
    seen = op.emit("Less", places, iteration)
    ends = [
        op.emit(kind, op.emit("Where", seen, new, op.const(unseen, np.float32)), keepdims=0)
        for kind, unseen in (("ReduceMin", np.inf), ("ReduceMax", -np.inf))
    ]
    return new, ends[0], ends[1]


def _tuned(op: Op, low: Value, high: Value, variance: Value, distance: Value) -> tuple[Value, Value]:
    """Learning rate and momentum for a range of curvatures: the root of a cubic polynomial."""
    spread = sqrt(op, div(op, high, low))
    limit = div(op, sub(op, spread, 1.0), add(op, spread, 1.0))
    p = div(op, square(op, mul(op, distance, low)), mul(op, variance, 2.0))
    inner = sqrt(op, add(op, square(op, p), mul(op, p, p, p, 4.0 / 27.0)))
    cube = mul(op, add(op, inner, p), -0.5)
    w = mul(op, op.emit("Pow", op.emit("Abs", cube), op.const(1.0 / 3.0, np.float32)), -1.0)
    root = add(op, sub(op, w, div(op, div(op, p, 3.0), w)), 1.0)
    momentum = op.emit("Max", square(op, root), square(op, limit))
    return div(op, square(op, sub(op, 1.0, sqrt(op, momentum))), low), momentum
