"""Activation functions, dropout and clipping, element by element; and softmax."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, aligned, div, mul, reshape_like, scalar
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import SINGLE, require_dtype, require_equal, require_min_rank
from caffe2_frontend.emit.rows.row_updates import as_table, flat_indices
from caffe2_frontend.emit.shapes import as_vector, broadcast_over_channels, known_size, unsqueeze
from caffe2_frontend.emit.slicing import split_equally
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("activation")

_X: Final = {0: TensorInfo(ir.DataType.FLOAT)}


def _input(op: Op) -> Value:
    """Return the first operand, which must be float or float16."""
    x = op.input(0)
    require_dtype(op, x, SINGLE, "the input")
    return x


@family.converts("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", expects=_X, uniform=True)
def same_name(op: Op) -> Value:
    """Relu | Sigmoid | Tanh | Softplus | Softsign(X) -> Y.

    Softplus of large values is finite, where Caffe2's overflows.
    """
    return op.emit(op.type, _input(op))


# ONNX attribute: (argument, its default).
_ATTRIBUTES: Final = {
    "Elu": {"alpha": ("alpha", 1.0)},
    "HardSigmoid": {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)},
    "LeakyRelu": {"alpha": ("alpha", 0.01)},
    "Selu": {"alpha": ("alpha", 1.6732632423543772), "gamma": ("scale", 1.0507009873554805)},
    "ThresholdedRelu": {"alpha": ("alpha", 1.0)},
}


@family.converts(*_ATTRIBUTES, expects=_X, uniform=True)
def attributes_from_arguments(op: Op) -> Value:
    """Elu(X; alpha=1.0) | HardSigmoid(X; alpha=0.2, beta=0.5) | LeakyRelu(X; alpha=0.01) -> Y.

    Likewise Selu(X; alpha=1.67326..., scale=1.05070...) and ThresholdedRelu(X; alpha=1.0).
    """
    numbers: dict[str, Any] = {
        a: op.args.number(name, default=default) for a, (name, default) in _ATTRIBUTES[op.type].items()
    }
    if op.type == "Selu" and numbers["gamma"] <= 1.0:
        op.unsupported(f"scale must be greater than 1, not {numbers['gamma']}", code="invalid-argument")
    y: Value = op.emit(op.type, _input(op), **numbers)
    return y


@family.converts("Gelu", expects=_X)
def gelu(op: Op) -> Value:
    """Gelu(X; fast_gelu=0) -> Y."""
    fast = op.args.flag("fast_gelu", default=False)
    return op.emit("Gelu", _input(op), approximate="tanh" if fast else None)


@family.converts("Mish", expects=_X)
def mish(op: Op) -> Value:
    """Mish(X) -> Y."""
    x = op.input(0)
    require_dtype(op, x, (*SINGLE, ir.DataType.DOUBLE), "the input")
    if op.dtype(x) != ir.DataType.DOUBLE:
        return op.emit("Mish", x)
    # onnxruntime has no float64 kernel for Mish: x * tanh(softplus(x)).
    softplus = op.emit("Log", add(op, op.emit("Exp", x), 1.0))
    return mul(op, x, op.emit("Tanh", softplus))


@family.converts("Swish", expects=_X, uniform=True)
def swish(op: Op) -> Value:
    """Swish(X) -> Y."""
    x = _input(op)
    return mul(op, x, op.emit("Sigmoid", x))


@family.converts("Clip", expects=_X, uniform=True)
def clip(op: Op) -> Value:
    """Clip(X; min, max) -> Y. Either bound may be left out."""
    x = _input(op)
    return op.emit("Clip", x, *_limits(op, x))


@family.converts("ReluN", expects=_X, uniform=True)
def relu_n(op: Op) -> Value:
    """ReluN(X; n=6.0) -> Y."""
    x = _input(op)
    n = op.args.number("n", default=6.0)
    if n <= 0:
        op.unsupported(f"n must be positive, not {n}", code="invalid-argument")
    return op.emit("Clip", x, op.const(0.0, x), op.const(n, x))


@family.converts("Logit", expects=_X)
def logit(op: Op) -> Value:
    """Logit(X; eps=1e-6) -> Y: ``log(x / (1 - x))``, with ``x`` clipped to [eps, 1 - eps]."""
    x = _input(op)
    eps = op.args.number("eps", default=1e-6)
    if not 0 < eps < 0.5:
        op.unsupported(f"eps must be between 0 and 0.5 (exclusive), not {eps}", code="invalid-argument")
    x = op.emit("Clip", x, op.const(eps, x), op.const(np.float32(1) - np.float32(eps), x))
    return op.emit("Log", div(op, x, op.emit("Sub", op.const(1.0, x), x)))


@family.converts("PRelu", expects=_X, uniform=True)
def prelu(op: Op) -> Value:
    """PRelu(X, slope; order="NCHW") -> Y.

    The slope holds one element, or one per channel.
    """
    op.args.ignore("alpha")
    x, slope = _input(op), op.input(1)
    last = channels_last(op)
    require_min_rank(op, x, 1 if last else 2, "the input")
    if known_size(op, slope) != 1:
        require_equal(op, known_size(op, slope), op.static_dim(x, -1 if last else 1), "slopes and channels")
    slope = as_vector(op, slope)
    return op.emit("PRelu", x, slope if last else broadcast_over_channels(op, slope, x))


@family.converts("Glu", expects=_X)
def gated_linear_unit(op: Op) -> Value:
    """Glu(X; dim=-1) -> Y.

    The first half along ``dim``, times the sigmoid of the second half.
    """
    x = _input(op)
    rank = op.rank(x)
    dim = op.args.integer("dim", default=-1)
    axis = rank - 1 if dim == -1 else dim
    if not 0 <= axis < rank:
        op.unsupported(f"dim {dim} is out of range for rank {rank}", code="invalid-argument")
    if (op.static_dim(x, axis) or 0) % 2:
        op.unsupported(f"the size of dim {dim} must be even, not {op.static_dim(x, axis)}", code="invalid-operands")
    value, gate = split_equally(op, x, axis, 2)
    return mul(op, value, op.emit("Sigmoid", gate))


@family.converts("Softmax", expects=_X)
def softmax(op: Op) -> Value:
    """Softmax(X; axis=1) -> Y.

    The dims from ``axis`` on are normalized together, as one: ONNX's Softmax (since opset 13) takes a single axis.
    """
    x = _input(op)
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    if axis == rank - 1:
        return op.emit("Softmax", x, axis=-1)
    return reshape_like(op, op.emit("Softmax", op.emit("Flatten", x, axis=axis), axis=1), x)


@family.converts("Dropout", expects=_X)
def dropout(op: Op) -> tuple[Value, Value | None]:
    """Dropout(X; ratio=0.5, is_test) -> Y[, mask].

    With is_test=1 Caffe2 leaves the mask unset: reading it is an error. In training the elements that are dropped
    differ from Caffe2's, because the random generators do.
    """
    x = _input(op)
    ratio = _ratio(op)
    if op.args.flag("is_test"):
        return x, None
    if op.output_count != 2:
        op.unsupported(
            f"Dropout must have two outputs in training (Y and mask), not {op.output_count}",
            hint="set is_test=1 to export for inference",
            code="invalid-operands",
        )
    seed = None if op.view.random_seed is None else int(op.view.random_seed)
    training = op.const(1, np.bool_)
    y, mask = op.emit("Dropout", x, op.const(ratio, np.float32), training, seed=seed, outputs=2)
    return y, mask


@family.converts("DropoutGrad", expects={0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.BOOL)})
def dropout_grad(op: Op) -> Value:
    """DropoutGrad(dY, mask; ratio=0.5, is_test) -> dX.

    The gradient is scaled by ``1 / (1 - ratio)`` where the mask is set, and 0 elsewhere.
    """
    dy = _input(op)
    ratio = _ratio(op)
    if op.args.flag("is_test"):
        return dy
    mask = op.emit("Cast", aligned(op, op.input(1), dy), to=int(op.dtype(dy)))
    return mul(op, dy, mul(op, mask, 1.0 / (1.0 - ratio)))


@family.converts("EnsureClipped", expects={0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.INT64, (None,))})
def ensure_clipped(op: Op) -> Value:
    """EnsureClipped(param[, indices, grad]; min, max) -> param.

    With indices only the rows that they name are clipped. The gradient must be given along with them, and is not used.
    """
    x = op.input(0)
    require_dtype(op, x, (ir.DataType.FLOAT,), "the parameter")
    limits = _limits(op, x)
    if not op.has_input(1):
        return op.emit("Clip", x, *limits)
    op.input(2)
    table, rows = as_table(op, x), flat_indices(op, op.input(1))
    clipped = op.emit("Clip", op.emit("Gather", table, rows, axis=0), *limits)
    return aligned(op, op.emit("ScatterND", table, unsqueeze(op, rows, [1]), clipped), x)


@family.converts(
    "ClipTensorByScaling", expects={0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.FLOAT, ())}
)
def clip_by_scaling(op: Op) -> Value:
    """ClipTensorByScaling(X, norm[, factor]; threshold=0.0) -> Y.

    Y is ``X * limit / norm`` where the norm is larger than the limit, else X; the limit is the threshold times the
    factor.
    """
    x, norm, factor = op.input(0), scalar(op, op.input(1)), op.optional(2)
    threshold = op.args.number("threshold", default=0.0)
    if threshold <= 0:
        op.unsupported(f"threshold must be positive, not {threshold}", code="invalid-argument")
    limit = op.const(threshold, x)
    if factor is not None:
        limit = mul(op, limit, scalar(op, factor))
    ratio = op.emit("Where", op.emit("Greater", norm, limit), div(op, limit, norm), op.const(1.0, x))
    return mul(op, x, ratio)


def _limits(op: Op, x: Value) -> tuple[Value | None, Value | None]:
    """Return ``min`` and ``max`` as constants of the type of ``x``; None for one that is not given."""
    lower, upper = (op.const(op.args.number(name), x) if name in op.args else None for name in ("min", "max"))
    return lower, upper


def _ratio(op: Op) -> float:
    """Return the argument ``ratio``, which must be in [0, 1)."""
    ratio = op.args.number("ratio", default=0.5)
    if not 0 <= ratio < 1:
        op.unsupported(f"ratio must be at least 0 and less than 1, not {ratio}", code="invalid-argument")
    return ratio
