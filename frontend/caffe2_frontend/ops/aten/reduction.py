"""ATen's reductions and scans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, square, sub
from caffe2_frontend.emit.reductions import reduce_axes, sum_axes
from caffe2_frontend.emit.shapes import cast, reshape, size, squeeze
from caffe2_frontend.emit.shapes import product as size_product
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.ops.aten.elementwise import extremum_of
from caffe2_frontend.ops.aten.operands import (
    as_float,
    is_integral,
    name_of,
    number,
    promoted,
    reduced_axes,
    scalar_type,
)

family = Family("aten reduction")

_REDUCTIONS: Final = {
    "sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd",
    "logsumexp": "ReduceLogSumExp", "frobenius_norm": "ReduceL2", "amax": "ReduceMax", "amin": "ReduceMin",
}  # fmt: skip


@family.converts(*_REDUCTIONS)
def reduction(op: Op) -> Value:
    """aten::sum | mean | prod | amax | amin | logsumexp | frobenius_norm(self; dim=[], keepdim=0, dtype).

    Sums and products of integers and booleans are int64.
    """
    x = op.input(0)
    name = name_of(op)
    if name in ("sum", "prod") and is_integral(op.dtype(x)):
        x = cast(op, x, scalar_type(op, ir.DataType.INT64))
    wide = op.dtype(op.input(0)) == ir.DataType.INT64  # sums of narrower ones fit into float64
    x = cast(op, x, scalar_type(op, op.dtype(x)))
    axes = reduced_axes(op, x, is_one=name == "prod")
    keep = op.args.flag("keepdim", default=False)
    if name == "sum" and wide:
        return sum_axes(op, x, axes, keep=keep)
    if name == "prod" and is_integral(op.dtype(x)):
        return cast(op, reduce_axes(op, "ReduceProd", cast(op, x, ir.DataType.INT64), axes, keep=keep), op.dtype(x))
    if name == "frobenius_norm" and is_integral(op.dtype(x)):
        op.unsupported("the input must hold floats: integers have no norm", code="dtype")
    kind = _REDUCTIONS[name]
    if kind in ("ReduceMax", "ReduceMin"):
        return _extreme(op, kind.removeprefix("Reduce"), x, axes, keep=keep)
    return reduce_axes(op, kind, x, axes, keep=keep)


@family.converts("max", "min")
def extremum(op: Op) -> Outputs:
    """aten::max | min(self[, other]; dim, keepdim=0) -> values[, indices].

    Over all elements, over ``dim`` with the (first) index of each, or element-wise of two tensors.
    """
    kind = "Max" if name_of(op) == "max" else "Min"
    if op.has_input(1):
        return extremum_of(op, kind)
    x = op.input(0)
    if "dim" not in op.args:
        return _extreme(op, kind, x, list(range(op.rank(x))))
    axis = op.axis(op.args.integer("dim"), op.rank(x), "dim")
    keep = op.args.flag("keepdim", default=False)
    return (
        _extreme(op, kind, x, [axis], keep=keep),
        op.emit(f"Arg{kind}", _comparable(op, x), axis=axis, keepdims=int(keep)),
    )


@family.converts("argmax", "argmin")
def index_of_extremum(op: Op) -> Value:
    """aten::argmax | argmin(self; dim, keepdim=0): without ``dim``, the index among all elements."""
    x = _comparable(op, op.input(0))
    kind = "ArgMax" if name_of(op) == "argmax" else "ArgMin"
    keep = op.args.flag("keepdim", default=False)
    if "dim" not in op.args:
        return op.emit(kind, reshape(op, x, [-1]), axis=0, keepdims=0, shape=[])
    return op.emit(kind, x, axis=op.axis(op.args.integer("dim"), op.rank(x), "dim"), keepdims=int(keep))


@family.converts("any", "all")
def quantifier(op: Op) -> Value:
    """aten::any | all(self; dim, keepdim=0): of booleans and numbers; uint8 gives uint8."""
    x = op.input(0)
    kind = "Max" if name_of(op) == "any" else "Min"
    axes, keep = reduced_axes(op, x, is_one=True), op.args.flag("keepdim", default=False)
    found = _extreme(op, kind, cast(op, x, ir.DataType.BOOL), axes, keep=keep)
    return cast(op, found, ir.DataType.UINT8 if op.dtype(x) == ir.DataType.UINT8 else ir.DataType.BOOL)


def _extreme(op: Op, kind: str, x: Value, axes: Sequence[int], *, keep: bool = False) -> Value:
    """Return the largest (``kind`` Max) or smallest elements (Min); of booleans whether one is true, or all are.

    Of no booleans none is, and all are; onnxruntime's kernel of booleans refuses them.
    """
    found = reduce_axes(op, f"Reduce{kind}", _comparable(op, x), axes, keep=keep)
    if op.dtype(x) != ir.DataType.BOOL:
        return found
    return cast(op, binary(op, kind, found, 0 if kind == "Max" else 1), ir.DataType.BOOL)


def _comparable(op: Op, x: Value) -> Value:
    """Return ``x``; booleans as numbers, which have an order in ONNX."""
    return cast(op, x, ir.DataType.INT32) if op.dtype(x) == ir.DataType.BOOL else x


@family.converts("var", "std", "var_mean", "std_mean")
def moments_of(op: Op) -> Outputs:
    """aten::var | std | var_mean | std_mean(self; dim=[], unbiased=1, keepdim=0)."""
    x = op.input(0)
    axes, name = reduced_axes(op, x), name_of(op)
    keep, unbiased = op.args.flag("keepdim", default=False), op.args.flag("unbiased", default=True)
    mean = reduce_axes(op, "ReduceMean", x, axes, keep=True)
    centered = square(op, sub(op, x, mean))
    if unbiased:
        total = reduce_axes(op, "ReduceSum", centered, axes, keep=keep)
        result = div(op, total, _degrees_of_freedom(op, x, axes))
    else:
        result = reduce_axes(op, "ReduceMean", centered, axes, keep=keep)
    if name.startswith("std"):
        result = op.emit("Sqrt", result)
    if not name.endswith("mean"):
        return result
    return result, mean if keep else squeeze(op, mean, axes)


def _degrees_of_freedom(op: Op, x: Value, axes: Sequence[int]) -> Value:
    """Return the number of elements that are reduced, minus one."""
    count = size_product(op, [size(op, x, axis) for axis in axes])
    if isinstance(count, int):
        return op.const(count - 1, x)
    return sub(op, cast(op, squeeze(op, count, [0]), op.dtype(x)), 1.0)


@family.converts("norm")
def convert_norm(op: Op) -> Value:
    """aten::norm(self; p=2, dim=[], keepdim=0)."""
    x = cast(op, op.input(0), scalar_type(op, op.dtype(op.input(0))))
    axes, keep = reduced_axes(op, x), op.args.flag("keepdim", default=False)
    return _norm(op, x, float(number(op, "p", 2)), axes, keep=keep)


def _norm(op: Op, x: Value, p: float, axes: Sequence[int], *, keep: bool) -> Value:
    """Return the p-norm along axes: the number of elements that are not zero for 0, an extreme for an infinite p."""
    if p in (1, 2):
        return reduce_axes(op, f"ReduceL{int(p)}", x, axes, keep=keep)
    size_of = op.emit("Abs", x)
    if math.isinf(p):
        return reduce_axes(op, "ReduceMax" if p > 0 else "ReduceMin", size_of, axes, keep=keep)
    if p == 0:
        nonzero = cast(op, op.emit("Not", binary(op, "Equal", x, 0.0)), op.dtype(x))
        return reduce_axes(op, "ReduceSum", nonzero, axes, keep=keep)
    total = reduce_axes(op, "ReduceSum", binary(op, "Pow", size_of, p), axes, keep=keep)
    return binary(op, "Pow", total, 1 / p)


@family.converts("cumsum")
def cumulative_sum(op: Op) -> Value:
    """aten::cumsum(self; dim, dtype): of integers, int64."""
    x = op.input(0)
    default = ir.DataType.INT64 if is_integral(op.dtype(x)) else op.dtype(x)
    x = cast(op, x, scalar_type(op, default))
    return op.emit("CumSum", x, op.const(op.axis(op.args.integer("dim"), op.rank(x), "dim"), np.int64))


@family.converts("cosine_similarity")
def convert_cosine_similarity(op: Op) -> Value:
    """aten::cosine_similarity(x1, x2; dim=1, eps=1e-8)."""
    a, b = promoted(op, op.input(0), op.input(1))
    if is_integral(op.dtype(a)):
        op.unsupported("PyTorch does not store a similarity as an integer", code="dtype")
    axis = [op.axis(op.args.integer("dim", default=1), max(op.rank(a), op.rank(b)), "dim")]
    eps = op.args.number("eps", default=1e-8)
    squares = mul(op, *(reduce_axes(op, "ReduceSumSquare", v, axis) for v in (a, b)))
    dot = reduce_axes(op, "ReduceSum", mul(op, a, b), axis)
    return div(op, dot, op.emit("Sqrt", binary(op, "Max", squares, eps * eps)))


@family.converts("pairwise_distance")
def convert_pairwise_distance(op: Op) -> Value:
    """aten::pairwise_distance(x1, x2; p=2, eps=1e-6, keepdim=0): the norm of ``x1 - x2 + eps`` along dim 1."""
    p, keep = op.args.number("p", default=2.0), op.args.flag("keepdim", default=False)
    difference = as_float(op, sub(op, *promoted(op, op.input(0), op.input(1))))
    difference = add(op, difference, op.args.number("eps", default=1e-6))
    axes = [op.axis(1, op.rank(difference), "dim")]
    return _norm(op, difference, p, axes, keep=keep)
