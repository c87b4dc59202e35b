"""Optimizers on dense tensors.

Most of them add the step to the parameter: learning rates of Caffe2 are negative by convention. MomentumSGD subtracts
it.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import (
    add,
    blend,
    div,
    known_equal,
    mul,
    reshape_like,
    scalar,
    sqrt,
    square,
    sub,
    total,
)
from caffe2_frontend.emit.first_element import first_element, with_first_element
from caffe2_frontend.emit.operand_checks import INDICES, SINGLE, require_dtype, takes
from caffe2_frontend.emit.shapes import cast, leading, product, size, sizes, unsqueeze
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Expectation, Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.training.optimizer_steps import (
    adadelta_arguments,
    adadelta_step,
    adam_corrections,
    ftrl_alpha,
    ftrl_arguments,
    ftrl_pairs,
    ftrl_scale,
    ftrl_state,
    ftrl_step,
    interleave,
    momentum_arguments,
    momentum_step,
    storm_rates,
)

family = Family("optimizer")

_ONE = TensorInfo(FLOAT, (1,))
_ITERATION = TensorInfo(ir.DataType.INT64, (1,))


def _operands(lr: int | None = None, iteration: int | None = None, total: int | None = None) -> Expectation:
    """Describe operands: float tensors, but for an iteration number; a learning rate or a total has one element."""

    def expected(_: OpView, index: int) -> TensorInfo:
        if index == iteration:
            return _ITERATION
        return _ONE if index in (lr, total) else TensorInfo(FLOAT)

    return expected


@family.converts("Adagrad", expects=_operands(lr=3))
@takes(SINGLE, 0, 1, 2, 3)
def adagrad(op: Op) -> tuple[Value, ...]:
    """Adagrad(param, moment, grad, lr; epsilon=1e-5, decay=1.0, weight_decay=0.0) -> param, moment[, rate, update].

    ``moment = decay * moment + grad ** 2``, and ``param += lr * grad / (sqrt(moment) + epsilon)``.
    """
    epsilon = op.args.number("epsilon", default=1e-5)
    decay = op.args.number("decay", default=1.0)
    weight_decay = op.args.number("weight_decay", default=0.0)
    param, old, grad, lr = op.input(0), op.input(1), op.input(2), first_element(op, op.input(3))
    grad = reshape_like(op, grad, param)
    if weight_decay:
        grad = add(op, mul(op, param, weight_decay), grad)
    old_moment = reshape_like(op, old, param)
    moment = add(op, old_moment if decay == 1.0 else mul(op, old_moment, decay), square(op, grad))
    effective_lr = div(op, lr, add(op, sqrt(op, moment), epsilon))
    update = mul(op, effective_lr, grad)
    return (
        add(op, param, update),
        reshape_like(op, moment, old),
        reshape_like(op, effective_lr, op.input(2)),
        reshape_like(op, update, op.input(2)),
    )


@family.converts("Adam", expects=_operands(lr=4, iteration=5))
@takes(SINGLE, 0, 1, 2, 3, 4)
def adam(op: Op) -> tuple[Value, ...]:
    """Adam(param, m1, m2, grad, lr, iter; beta1=0.9, beta2=0.999, epsilon=1e-5) -> param, m1, m2[, step].

    The bias of both moments is corrected in one factor, so that epsilon is added to the uncorrected root.
    """
    beta1, beta2 = op.args.number("beta1", default=0.9), op.args.number("beta2", default=0.999)
    epsilon = op.args.number("epsilon", default=1e-5)
    param, lr = op.input(0), scalar(op, op.input(4))
    moment1, moment2, grad = (reshape_like(op, op.input(i), param) for i in (1, 2, 3))
    correction, _, _ = adam_corrections(op, op.input(5), beta1, beta2)
    moment1 = blend(op, moment1, grad, beta1)
    moment2 = blend(op, moment2, square(op, grad), beta2)
    divisor = add(op, sqrt(op, moment2), epsilon)
    moments = [reshape_like(op, moment, op.input(i)) for i, moment in ((1, moment1), (2, moment2))]
    if not op.wants(3):  # Caffe2 multiplies in another order then
        return add(op, param, div(op, mul(op, moment1, mul(op, lr, correction)), divisor)), *moments
    step = div(op, mul(op, moment1, correction), divisor)
    return add(op, param, mul(op, step, lr)), *moments, reshape_like(op, step, op.input(3))


@family.converts("DecayAdagrad", expects=_operands(lr=4, iteration=5))
@takes(SINGLE, 0, 1, 2, 3, 4)
def decay_adagrad(op: Op) -> tuple[Value, ...]:
    """DecayAdagrad(param, moment1, moment2, grad, lr, iter; beta1=0.9, epsilon=1e-5, ...) -> param, moment1, moment2.

    Adam with a second moment that is a sum, as Adagrad's, and with weight decay: weight_decay=0.0,
    bias_correction_first=1. ``beta2`` is read, and not used.
    """
    beta1 = op.args.number("beta1", default=0.9)
    op.args.number("beta2", default=0.999)
    epsilon = op.args.number("epsilon", default=1e-5)
    weight_decay = op.args.number("weight_decay", default=0.0)
    param, lr = op.input(0), scalar(op, op.input(4))
    moment1, moment2, grad = (reshape_like(op, op.input(i), param) for i in (1, 2, 3))
    moment1 = blend(op, moment1, grad, beta1)
    moment2 = add(op, moment2, square(op, grad))
    corrected = moment1
    if op.args.flag("bias_correction_first", default=True):
        corrected = mul(op, moment1, adam_corrections(op, op.input(5), beta1, 0.0)[1])
    step = add(op, div(op, corrected, add(op, sqrt(op, moment2), epsilon)), mul(op, param, weight_decay))
    return (
        add(op, param, mul(op, step, lr)),
        reshape_like(op, moment1, op.input(1)),
        reshape_like(op, moment2, op.input(2)),
    )


@family.converts("Adadelta", expects=_operands(lr=4))
@takes(SINGLE, 0, 1, 2, 3, 4)
def adadelta(op: Op) -> tuple[Value, ...]:
    """Adadelta(param, moment, moment_delta, grad, lr; epsilon=1e-5, decay=0.95) -> param, moment, moment_delta."""
    epsilon, decay = adadelta_arguments(op)
    param, lr = op.input(0), first_element(op, op.input(4))
    moment, delta, grad = (reshape_like(op, op.input(i), param) for i in (1, 2, 3))
    new, moment, delta = adadelta_step(op, param, moment, delta, grad, lr, epsilon, decay)
    return new, reshape_like(op, moment, op.input(1)), reshape_like(op, delta, op.input(2))


@family.converts("Ftrl", expects=_operands())
@takes(SINGLE, 0, 1, 2, 3)
def ftrl(op: Op) -> tuple[Value, Value]:
    """Ftrl(param, nz, grad[, alpha]; alpha=0.005, beta=1.0, lambda1=0.001, lambda2=0.001) -> param, nz."""
    alpha_inverse, arguments = ftrl_alpha(op, 3), ftrl_arguments(op)
    param, state = op.input(0), op.input(1)
    grad = reshape_like(op, op.input(2), param)
    new, pairs = ftrl_step(op, param, grad, ftrl_pairs(op, state, param), alpha_inverse, arguments)
    return new, reshape_like(op, pairs, state)


@family.converts("GFtrl", expects=_operands())
@takes(SINGLE, 0, 1, 2)
def gftrl(op: Op) -> tuple[Value, Value]:
    """GFtrl(param, nz, grad[, alpha]; alpha=0.005, beta=1.0, lambda1=0.001, lambda2=0.001) -> param, nz.

    Ftrl with group sparsity: the weights that share all indices but the first are a group, which is 0 while the 2-norm
    of its z does not exceed ``lambda1 * sqrt(size of the group)``.
    """
    alpha_inverse, (beta, lambda1, lambda2) = ftrl_alpha(op, 3), ftrl_arguments(op)
    grad, state = op.input(2), op.input(1)
    param = reshape_like(op, op.input(0), grad)
    n, z = ftrl_state(op, param, grad, ftrl_pairs(op, state, grad), alpha_inverse)
    norm = op.emit("ReduceL2", z, op.const([0], np.int64), keepdims=1)
    rows = size(op, grad, 0)
    if isinstance(rows, int):
        limit = op.const(lambda1 * math.sqrt(rows), np.float32)
    else:
        limit = mul(op, sqrt(op, cast(op, rows, FLOAT)), lambda1)
    weight = div(op, mul(op, z, sub(op, div(op, limit, norm), 1.0)), ftrl_scale(op, n, alpha_inverse, beta, lambda2))
    new = op.emit("Where", op.emit("Greater", norm, limit), weight, op.const(0.0, z))
    return reshape_like(op, new, op.input(0)), reshape_like(op, interleave(op, n, z), state)


@family.converts("Lars", expects={i: TensorInfo(FLOAT) if i < 2 else _ONE for i in range(5)})
@takes(SINGLE, 0, 1, 2, 3, 4)
def lars(op: Op) -> Value:
    """Lars(X, dX, wd, trust, lr_max; offset=0.5, lr_min=0.02) -> lr.

    ``trust / (|dX| / |X| + wd + offset)``, clipped to [lr_min, lr_max]; 1 before clipping if X is 0.
    """
    offset, lr_min = op.args.number("offset", default=0.5), op.args.number("lr_min", default=0.02)
    if not (offset >= 0 and lr_min >= 0):  # nor a NaN
        op.unsupported(f"offset ({offset}) and lr_min ({lr_min}) must not be negative", code="invalid-argument")
    norm, grad_norm = (sqrt(op, total(op, square(op, op.input(i)))) for i in (0, 1))
    decay, trust, lr_max = (first_element(op, op.input(i)) for i in (2, 3, 4))
    rate = div(op, trust, add(op, div(op, grad_norm, norm), decay, offset))
    rate = op.emit("Where", op.emit("Greater", norm, op.const(0.0, norm)), rate, op.const(1.0, norm))
    rate = op.emit("Max", op.emit("Min", rate, lr_max), op.const(lr_min, norm))
    return unsqueeze(op, rate, [0])


@family.converts("LearningRateAdaption", expects=_operands(lr=0))
@takes(SINGLE, 0, 1, 2)
def learning_rate_adaption(op: Op) -> Value:
    """LearningRateAdaption(lr, grad, effgrad; lr_alpha=0.01, normalized_lr_adaption=1) -> lr.

    Hypergradient descent: the rate changes by the dot product of the gradient and the effective gradient, or by their
    cosine if normalized. (A. Baydin et al., "Online Learning Rate Adaptation with Hypergradient Descent", 2018.)
    """
    alpha = op.args.number("lr_alpha", default=0.01)
    lr, grad = op.input(0), op.input(1)
    effective = reshape_like(op, op.input(2), grad)
    agreement = mul(op, total(op, mul(op, grad, effective)), alpha)
    if not op.args.flag("normalized_lr_adaption", default=True):
        return sub(op, lr, agreement)
    norms = [op.emit("Max", sqrt(op, total(op, square(op, v))), op.const(1e-12, np.float32)) for v in (grad, effective)]
    return mul(op, lr, sub(op, 1.0, div(op, agreement, mul(op, *norms))))


@family.converts("MomentumSGD", "MomentumSGDUpdate", expects=_operands(lr=2))
@takes(SINGLE, 0, 1, 2, 3)
def momentum_sgd(op: Op) -> tuple[Value, ...]:
    """MomentumSGD(grad, moment, lr; momentum=0.0, nesterov=0) -> grad, moment.

    MomentumSGDUpdate(grad, moment, lr, param; ...) -> grad, moment, param also subtracts the adjusted gradient.
    """
    momentum, nesterov = momentum_arguments(op)
    grad, moment, lr = op.input(0), op.input(1), scalar(op, op.input(2))
    adjusted, new = momentum_step(op, grad, reshape_like(op, moment, grad), lr, momentum, nesterov=nesterov)
    outputs = adjusted, reshape_like(op, new, moment)
    if op.type == "MomentumSGD":
        return outputs
    return *outputs, sub(op, op.input(3), reshape_like(op, adjusted, op.input(3)))


@family.converts("RmsProp", expects=_operands(lr=3))
@takes(SINGLE, 0, 1, 2, 3)
def rms_prop(op: Op) -> tuple[Value, ...]:
    """RmsProp(grad, mean_squares, moment, lr; decay=0.9, momentum=0.0, epsilon=1e-5) -> grad, mean_squares, moment."""
    decay, momentum = op.args.number("decay", default=0.9), op.args.number("momentum", default=0.0)
    epsilon = op.args.number("epsilon", default=1e-5)
    grad, lr = op.input(0), scalar(op, op.input(3))
    mean_squares, moment = (reshape_like(op, op.input(i), grad) for i in (1, 2))
    mean_squares = add(op, mean_squares, mul(op, sub(op, square(op, grad), mean_squares), 1.0 - decay))
    step = div(op, mul(op, grad, lr), sqrt(op, add(op, mean_squares, epsilon)))
    moment = add(op, mul(op, moment, momentum), step)
    return moment, reshape_like(op, mean_squares, op.input(1)), reshape_like(op, moment, op.input(2))


@family.converts("Storm", expects=_operands(lr=4, total=2))
@takes(SINGLE, 0, 1, 2, 3, 4)
def storm(op: Op) -> tuple[Value, ...]:
    """Storm(param, moment, grad_sq_sum, grad, lr; momentum=10.0, beta=0.1) -> param, moment, grad_sq_sum.

    ``moment = grad + keep * (moment - grad)``. (A. Cutkosky and F. Orabona, "Momentum-Based Variance Reduction in
    Non-Convex SGD", 2019.)
    """
    param, lr = op.input(0), scalar(op, op.input(4))
    moment, grad = (reshape_like(op, op.input(i), param) for i in (1, 3))
    squares = add(op, op.input(2), total(op, square(op, grad)))
    rate, share = storm_rates(op, scalar(op, squares), lr)
    moment = add(op, moment, mul(op, sub(op, grad, moment), share))
    return add(op, param, mul(op, moment, rate)), reshape_like(op, moment, op.input(1)), squares


@family.converts("Wngrad", expects=_operands(lr=3, total=1))
@takes(SINGLE, 0, 1, 2, 3)
def wngrad(op: Op) -> tuple[Value, ...]:
    """Wngrad(param, seq_b, grad, lr; epsilon=1e-5) -> param, seq_b[, rate, update].

    ``param += lr / (b + epsilon) * grad``, then ``b += sum(grad ** 2) / (b + epsilon)``. (X. Wu et al., "WNGrad: Learn
    the Learning Rate in Gradient Descent", 2018.)
    """
    epsilon = op.args.number("epsilon", default=1e-5)
    param, sequence, lr = op.input(0), op.input(1), first_element(op, op.input(3))
    grad = reshape_like(op, op.input(2), param)
    divisor = add(op, first_element(op, sequence), epsilon)
    effective_lr = div(op, lr, divisor)
    update = mul(op, grad, effective_lr)
    new = add(op, first_element(op, sequence), div(op, total(op, square(op, grad)), divisor))
    return (
        add(op, param, update),
        with_first_element(op, sequence, new),
        with_first_element(op, sequence, effective_lr),
        reshape_like(op, update, op.input(2)),
    )


@family.converts("WeightScale", expects=_operands(iteration=1))
@takes(SINGLE, 0)
def weight_scale(op: Op) -> Value:
    """WeightScale(w, iter; stepsize, upper_bound_iter, scale=1.0) -> w.

    The weights are scaled in the iterations that are multiples of ``stepsize`` and below ``upper_bound_iter``; both are
    unlimited by default.
    """
    unlimited = int(np.iinfo(np.int64).max)
    stepsize = op.args.integer("stepsize", default=unlimited)
    bound = op.args.integer("upper_bound_iter", default=unlimited)
    scale = op.args.number("scale", default=1.0)
    if stepsize == 0:
        op.unsupported("stepsize must not be 0", code="invalid-argument")
    weights, iteration = op.input(0), add(op, first_element(op, op.input(1)), 1)
    at_step = op.emit("Equal", op.emit("Mod", iteration, op.const(stepsize, np.int64)), op.const(0, np.int64))
    due = op.emit("And", at_step, op.emit("Less", iteration, op.const(bound, np.int64)))
    return mul(op, weights, op.emit("Where", due, op.const(scale, weights), op.const(1.0, weights)))


@family.converts("CreateMutex")
def create_mutex(op: Op) -> tuple[None]:
    """CreateMutex() -> mutex.

    A mutex is not a tensor. Only AtomicIter reads it, and an ONNX model has no concurrent updates to protect against.
    """
    op.args.ignore(*op.args)
    return (None,)


@family.converts("Iter", "AtomicIter", expects={0: _ITERATION, 1: _ITERATION})
def iteration_number(op: Op) -> Value:
    """Iter(iter) -> iter. AtomicIter(mutex, iter) -> iter. The iteration number plus 1.

    Without an operand Iter continues from the blob that is its output, or starts at 1 if that does not exist.
    """
    before = op.input(1) if op.type == "AtomicIter" else op.optional(0) or op.scope.find(op.view.outputs[0])
    if before is None:
        return op.const([1], np.int64)
    require_dtype(op, before, INDICES, "the iteration number")
    return add(op, before, 1)


@family.converts("Accumulate", expects={0: TensorInfo(FLOAT)})
@takes(SINGLE, 0)
def accumulate(op: Op) -> Value:
    """Accumulate(X; gamma=1.0) -> Y: ``X + gamma * Y``, in the shape of X.

    Y is what the blob of the output held before, of which as many elements are read as X has; nothing is added if it
    held nothing. Caffe2 adds what is in its memory then.
    """
    x, gamma = op.input(0), op.args.number("gamma", default=1.0)
    before = op.scope.find(op.view.outputs[0])
    if before is None:
        return op.emit("Identity", x, shape=op.shape(x))
    require_dtype(op, before, SINGLE, "what the output held before")
    if before.shape is None or x.shape is None or not known_equal(before.shape, x.shape):
        before = reshape_like(op, leading(op, before, product(op, sizes(op, x))), x)
    return add(op, x, mul(op, before, gamma))
