"""Fills: operators that generate tensors from arguments, and from random numbers.

The shape is the argument ``shape``, the shape of the first operand, or with ``input_as_shape`` the contents of that
operand; ``extra_shape`` is appended to the latter two.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from caffe2_bridge import wire
from caffe2_bridge.init.fills import FILLS, FillError, FillOp, Values
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.views import Args
from caffe2_bridge.proto.caffe2_pb2 import Argument, TensorProto
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value, value_of

family = Family("fill")

_SHAPE_ARGS = ("shape", "extra_shape", "input_as_shape")


def fill_shape(op: Op) -> list[int]:
    """Return the shape that the arguments and the first operand of a fill give."""
    extra, shape = op.args.integers("extra_shape", default=()), op.args.integers("shape", default=())
    as_shape = op.args.flag("input_as_shape", default=False)
    if not op.has(0):
        if extra or as_shape:
            op.refuse("'extra_shape' and 'input_as_shape' require an input")
        return list(shape)
    if shape:
        op.refuse("'shape' and an input must not both be given")
    first = op.values[0]
    if not as_shape:
        return [*(first.shape if first is not None else ()), *extra]  # type: ignore[union-attr] # tensors and strings
    if op.tensor(0).dtype != torch.int64 or op.tensor(0).dim() != 1:
        op.refuse("the input must be an int64 vector with input_as_shape=1")
    return [*op.tensor(0).tolist(), *extra]


@family.converts("ConstantFill", "Float16ConstantFill")
def constant(op: Op) -> Value:
    """Fill with one value; the dims of the shape may be symbols of an exported program."""
    shape = fill_shape(op)
    op.args.ignore("dtype", "value", *_SHAPE_ARGS)
    if op.has(1):
        return op.tensor(1).reshape(()).expand(shape).clone()
    value = _filled(op, [1])
    like = value_of(value)
    if not isinstance(like, torch.Tensor):
        return np.full(shape, like, object)  # type: ignore[arg-type] # one string
    dtype = op.context.real if like.dtype == torch.float32 else like.dtype
    return torch.full(shape, value.item(), dtype=dtype, device=op.context.device)


@family.converts(
    "DiagonalFill", "GivenTensorBoolFill", "GivenTensorByteStringToUInt8Fill", "GivenTensorDoubleFill",
    "GivenTensorFill", "GivenTensorInt16Fill", "GivenTensorInt64Fill", "GivenTensorIntFill", "GivenTensorStringFill",
)  # fmt: skip
def given(op: Op) -> Value:
    shape = fill_shape(op)
    op.args.ignore("dtype", "values", "value", *_SHAPE_ARGS)
    value = value_of(_filled(op, shape), op.context.device)
    if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        return value.to(op.context.real)
    return value


def _filled(op: Op, shape: list[int]) -> Array:
    """Return what the fill of an init net makes of these arguments, in this shape."""
    own = (arg for arg in op.view.proto.arg if arg.name not in _SHAPE_ARGS)
    args = Args(iter([*own, Argument(name="shape", ints=shape)]))
    try:
        filled = FILLS[op.type](FillOp(args, _values(op), (), ()))
    except FillError as error:
        op.refuse(str(error))
    op.args.ignore(*args.read)
    return filled.make().reshape(filled.shape)


def _values(op: Op) -> Values | None:
    raw = op.args.raw("values")
    return None if raw is None else Values(lambda: wire.Span.of(raw.SerializeToString()), parsed=raw)


@family.converts("RangeFill")
def range_fill(op: Op) -> Value:
    shape = fill_shape(op)
    return torch.arange(math.prod(shape), device=op.context.device).to(op.context.real).reshape(shape)


def _generator(op: Op) -> torch.Generator | None:
    """Return the generator of the operator's seed: with one every run draws the same."""
    seed = op.view.random_seed
    if seed is None:
        return None
    return torch.Generator(op.context.device or "cpu").manual_seed(int(seed))


def _drawn(op: Op, shape: list[int], low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    generator = _generator(op)
    uniform = torch.rand(shape, generator=generator, device=op.context.device, dtype=torch.float32)
    return (uniform * (high - low) + low).to(op.context.real)


def _bounds(op: Op, *, whole: bool) -> tuple[float, float, bool]:
    """Return the bounds, and whether there are rows between them."""
    if op.has(1):
        low, high = (op.tensor(i).reshape(()).item() for i in (1, 2))
        return low, high, low <= high
    if whole:
        low, high = op.args.integer("min", default=0), op.args.integer("max", default=1)
    else:
        low, high = op.args.number("min", default=0.0), op.args.number("max", default=1.0)
    if not low < high:
        op.refuse(f"max ({high}) must be greater than min ({low})")
    return low, high, True


@family.converts("UniformFill", "Float16UniformFill")
def uniform(op: Op) -> Value:
    shape = fill_shape(op)
    low, high, has_rows = _bounds(op, whole=False)
    drawn = _drawn(op, shape if has_rows else [0, *shape[1:]], low, high)
    return drawn.to(torch.float16) if op.type == "Float16UniformFill" else drawn


@family.converts("UniformIntFill")
def uniform_int(op: Op) -> Value:
    shape = fill_shape(op)
    low, high, has_rows = _bounds(op, whole=True)
    shape = shape if has_rows else [0, *shape[1:]]
    return torch.randint(
        int(low), int(high) + 1 if has_rows else int(low) + 1, shape, generator=_generator(op), dtype=torch.int64,
        device=op.context.device,
    ).to(torch.int32)  # fmt: skip


@family.converts("UniqueUniformFill")
def unique_uniform(op: Op) -> Value:
    shape = fill_shape(op)
    low, high = op.args.integer("min"), op.args.integer("max")
    dtype = op.dtype(op.args.integer("dtype", default=TensorProto.INT32))
    known = set(op.tensor(1).reshape(-1).tolist()) if op.has(1) else set()
    if high - low > 1 << 20:
        op.refuse("ranges of more than a million integers are not supported")
    free = torch.tensor([i for i in range(low, high + 1) if i not in known], dtype=torch.int64)
    count = math.prod(shape)
    if count > free.numel():
        op.refuse(f"there are fewer than {count} integers to choose from")
    return free[torch.randperm(free.numel(), generator=_generator(op))[:count]].reshape(shape).to(dtype)


def _normal(op: Op, shape: list[int], mean: float, std: float) -> torch.Tensor:
    drawn = torch.randn(shape, generator=_generator(op), device=op.context.device, dtype=torch.float32)
    return (drawn * std + mean).to(op.context.real)


@family.converts("GaussianFill")
def gaussian(op: Op) -> Value:
    return _normal(op, fill_shape(op), op.args.number("mean", default=0.0), op.args.number("std", default=1.0))


@family.converts("XavierFill")
def xavier(op: Op) -> Value:
    shape = fill_shape(op)
    scale = math.sqrt(3.0 / (math.prod(shape) / shape[0]))
    return _drawn(op, shape, -scale, scale)


@family.converts("MSRAFill")
def msra(op: Op) -> Value:
    shape = fill_shape(op)
    return _normal(op, shape, 0.0, math.sqrt(2.0 / (math.prod(shape) / shape[1])))
