"""Arguments and update formulas of optimizers, shared by those on dense tensors and those on rows of tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, known_equal, mul, scalar, sqrt, square, sub
from caffe2_frontend.emit.first_element import first_element
from caffe2_frontend.emit.shapes import broadcast_over_rows, cast, unsqueeze
from caffe2_frontend.interop.types import FLOAT
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True, slots=True)
class AdagradRowArguments:
    """The arguments of Adagrad on rows of a table; ``rowwise`` has one moment per row."""

    epsilon: float
    weight_decay: float
    rowwise: bool


def adagrad_row_arguments(op: Op, *, rowwise: bool) -> AdagradRowArguments:
    """Read epsilon=1e-5 and weight_decay=0.0."""
    epsilon = op.args.number("epsilon", default=1e-5)
    return AdagradRowArguments(epsilon, op.args.number("weight_decay", default=0.0), rowwise)


def require_no_decay(op: Op) -> None:
    """Refuse a decay of the moment other than 1, as Caffe2 does."""
    if op.args.number("decay", default=1.0) != 1.0:
        op.unsupported("decay must be 1", hint="remove decay", code="invalid-argument")


def adagrad_row_step(
    op: Op, row: Value, moment: Value, grad: Value, lr: Value, arguments: AdagradRowArguments
) -> tuple[Value, Value]:
    """Return rows of a table and their moments after a step; a moment per row grows by the mean of the squares."""
    if arguments.weight_decay:
        grad = add(op, mul(op, row, arguments.weight_decay), grad)
    grown = add(op, moment, mean_square(op, grad) if arguments.rowwise else square(op, grad))
    rate = div(op, lr, add(op, sqrt(op, grown), arguments.epsilon))
    if arguments.rowwise:
        rate = broadcast_over_rows(op, rate, row)
    return add(op, row, mul(op, grad, rate)), grown


def mean_square(op: Op, rows: Value) -> Value:
    """Return the mean of the squares of each row, [k]."""
    squares, axes = square(op, rows), list(range(1, op.rank(rows)))
    return op.emit("ReduceMean", squares, op.const(axes, np.int64), keepdims=0) if axes else squares


def adam_corrections(op: Op, iteration: Value, beta1: float, beta2: float) -> tuple[Value, Value, Value]:
    """Return the bias corrections of Adam's moments at an iteration.

    Returns:
        ``sqrt(1 - beta2 ** t) / (1 - beta1 ** t)`` and ``1 / (1 - beta1 ** t)`` as float scalars, and ``beta2 ** t`` as
        a double, where t is the iteration plus one. All are computed in double.
    """
    step = cast(op, add(op, first_element(op, iteration), 1), ir.DataType.DOUBLE)
    power1, power2 = (op.emit("Pow", op.const(beta, np.float64), step) for beta in (beta1, beta2))
    first = div(op, 1.0, sub(op, 1.0, power1))
    both = mul(op, sqrt(op, sub(op, 1.0, power2)), first)
    return cast(op, both, FLOAT), cast(op, first, FLOAT), power2


def adadelta_arguments(op: Op) -> tuple[float, float]:
    """Read and check epsilon=1e-5 and decay=0.95."""
    epsilon, decay = op.args.number("epsilon", default=1e-5), op.args.number("decay", default=0.95)
    if epsilon < 0 or not 0 < decay < 1:
        op.unsupported(
            f"epsilon must not be negative ({epsilon}), and decay must be between 0 and 1 ({decay})",
            code="invalid-argument",
        )
    return epsilon, decay


def adadelta_step(
    op: Op, param: Value, moment: Value, delta: Value, grad: Value, lr: Value, epsilon: float, decay: float
) -> tuple[Value, Value, Value]:
    """Return the parameter, the mean squared gradient and the mean squared update after a step."""
    moment = _mean_square(op, moment, grad, decay)
    ratio = div(op, sqrt(op, add(op, delta, epsilon)), sqrt(op, add(op, moment, epsilon)))
    step = mul(op, ratio, grad)
    return add(op, param, mul(op, step, lr)), moment, _mean_square(op, delta, step, decay)


def _mean_square(op: Op, mean: Value, x: Value, decay: float) -> Value:
    """Return ``decay * mean + (1 - decay) * x * x``, rounded as in Caffe2: near the optimum the noise would grow."""
    rest = float(np.float32(1) - np.float32(decay))
    return add(op, mul(op, mean, decay), mul(op, mul(op, x, rest), x))


def ftrl_alpha(op: Op, index: int) -> Value:
    """Return ``1 / alpha`` as a scalar; alpha is operand ``index``, or an argument (0.005)."""
    if op.has_input(index):
        if "alpha" in op.args:
            op.unsupported(
                "alpha must not be given both as an input and as an argument",
                hint="remove one",
                code="invalid-argument",
            )
        return op.emit("Reciprocal", scalar(op, op.input(index)))
    with np.errstate(all="ignore"):  # alpha may be 0, or so small that its inverse is infinite
        return op.const(np.float32(np.float64(1.0) / op.args.number("alpha", default=0.005)), np.float32)


def ftrl_arguments(op: Op) -> tuple[float, float, float]:
    """Read beta=1.0, lambda1=0.001 and lambda2=0.001."""
    return (
        op.args.number("beta", default=1.0),
        op.args.number("lambda1", default=0.001),
        op.args.number("lambda2", default=0.001),
    )


def ftrl_pairs(op: Op, state: Value, param: Value) -> Value:
    """Return the state as [..., 2], a pair (n, z) for each element of the parameter, whatever dims it has."""
    shape = ir.Shape([*op.shape(param), 2])
    if known_equal(op.shape(state), shape):
        return state
    dims = op.emit("Concat", op.emit("Shape", param), op.const([2], np.int64), axis=0)
    return op.emit("Reshape", state, dims, allowzero=1, shape=shape)


def ftrl_state(op: Op, param: Value, grad: Value, state: Value, alpha_inverse: Value) -> tuple[Value, Value]:
    """Return the sums n and z after a step; ``state`` holds them interleaved, along its last dim.

    ``n += g ** 2``, and ``z += g - sigma * w`` with ``sigma = (sqrt(new n) - sqrt(n)) / alpha``.
    """
    n, z = (op.emit("Gather", state, op.const(i, np.int64), axis=-1) for i in (0, 1))
    new_n = add(op, n, square(op, grad))
    # As in Caffe2 the roots, of which nearly equal ones cancel, are of float64.
    new_root, root = (sqrt(op, cast(op, value, ir.DataType.DOUBLE)) for value in (new_n, n))
    sigma = mul(op, cast(op, sub(op, new_root, root), op.dtype(n)), alpha_inverse)
    return new_n, sub(op, add(op, z, grad), mul(op, sigma, param))


def ftrl_scale(op: Op, n: Value, alpha_inverse: Value, beta: float, lambda2: float) -> Value:
    """Return the divisor of the weights: ``(beta + sqrt(n)) / alpha + lambda2``."""
    return add(op, mul(op, add(op, sqrt(op, n), beta), alpha_inverse), lambda2)


def ftrl_step(
    op: Op, param: Value, grad: Value, state: Value, alpha_inverse: Value, arguments: tuple[float, float, float]
) -> tuple[Value, Value]:
    """Return the parameter and the state after a step.

    FTRL-Proximal with L1 and L2 regularization: a weight is 0 while ``|z| <= lambda1``. (H. B. McMahan et al., "Ad
    Click Prediction: a View from the Trenches", 2013.)
    """
    beta, lambda1, lambda2 = arguments
    n, z = ftrl_state(op, param, grad, state, alpha_inverse)
    if lambda1 >= 0:
        beyond = op.emit("Shrink", z, lambd=lambda1, bias=lambda1)
        nonzero = cast(op, beyond, ir.DataType.BOOL)
    else:
        beyond = sub(op, z, mul(op, op.emit("Sign", z), lambda1))
        nonzero = op.emit("Greater", op.emit("Abs", z), op.const(lambda1, z))
    negated = ftrl_scale(op, n, op.emit("Neg", alpha_inverse), beta, -lambda2)
    return op.emit("Where", nonzero, div(op, beyond, negated), op.const(0.0, z)), interleave(op, n, z)


def interleave(op: Op, n: Value, z: Value) -> Value:
    """Interleave n and z along a new last dim."""
    last = op.rank(n)
    return op.emit("Concat", unsqueeze(op, n, [last]), unsqueeze(op, z, [last]), axis=-1)


def momentum_arguments(op: Op) -> tuple[float, bool]:
    """Read momentum=0.0 and nesterov=0."""
    return op.args.number("momentum", default=0.0), op.args.flag("nesterov", default=False)


def momentum_step(
    op: Op, grad: Value, moment: Value, lr: Value, momentum: float, *, nesterov: bool
) -> tuple[Value, Value]:
    """Return the adjusted gradient and the momentum after a step."""
    new = add(op, mul(op, grad, lr), mul(op, moment, momentum))
    if not nesterov:
        return new, new
    return sub(op, mul(op, new, 1.0 + momentum), mul(op, moment, momentum)), new


def storm_rates(op: Op, squares: Value, lr: Value) -> tuple[Value, Value]:
    """Return the learning rate for a sum of squared gradients, and the share of the gradient in the momentum.

    ``rate = lr / (beta + sum) ** (1 / 3)`` and ``share = momentum * rate ** 2``, with the arguments momentum=10.0 and
    beta=0.1.
    """
    momentum, beta = op.args.number("momentum", default=10.0), op.args.number("beta", default=0.1)
    rate = mul(op, op.emit("Pow", add(op, squares, beta), op.const(-1.0 / 3.0, np.float32)), lr)
    return rate, mul(op, square(op, rate), momentum)
