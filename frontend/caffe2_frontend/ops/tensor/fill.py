"""Fills: tensors that operators of a net make, constant ones and random ones.

Their shape is the argument ``shape``, that of the first operand, or the one that this operand holds; ``extra_shape``
comes behind the latter two. What has a fixed shape and is not random becomes a constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.init.fills import FILLS, Filled, FillError, FillOp, Values
from caffe2_bridge.netdef.views import Args, OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument
from caffe2_bridge.wire import read as wire
from caffe2_frontend.emit.arithmetic import scalar
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.selection import select
from caffe2_frontend.emit.shapes import indices, slice_axis
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("fill")

_GIVEN: Final = (
    "GivenTensorBoolFill", "GivenTensorByteStringToUInt8Fill", "GivenTensorDoubleFill", "GivenTensorFill",
    "GivenTensorInt16Fill", "GivenTensorInt64Fill", "GivenTensorIntFill", "GivenTensorStringFill",
)  # fmt: skip
# Elements of a constant that is stored, and not made when the model runs.
_STORED: Final = 1024
_SHAPE_ARGS: Final = ("shape", "extra_shape", "input_as_shape")


def fill_operand(op: OpView, index: int) -> TensorInfo:
    """The first operand of a fill is its shape if ``input_as_shape``."""
    if index == 0 and op.args.flag("input_as_shape", default=False):
        return TensorInfo(ir.DataType.INT64, (None,))
    return TensorInfo()


@family.converts(*_GIVEN, expects=fill_operand)
def given(op: Op) -> Value:
    """Only GivenTensorFill heeds ``dtype``."""
    op.args.ignore("dtype")
    if not op.has_input(0):
        return _constant(op, op.args)
    shape = fill_shape(op)
    return shape.reshape(op, _tensor(op, _filled(op, _with_shape(op, [_count(op)]))))


@family.converts("ConstantFill", "Float16ConstantFill", expects=fill_operand)
def constant(op: Op) -> Value:
    """The value is an argument, or the one element of the second operand."""
    if _is_small(op):
        return _constant(op, op.args)
    shape, one = fill_shape(op), _filled(op, _with_shape(op, []))
    if op.has_input(1):
        require_dtype(op, op.input(1), (_onnx_type(one),), "the value")
    if op.has_input(1) or one.dtype.kind == "O":
        value = scalar(op, op.input(1)) if op.has_input(1) else _tensor(op, one)
        return op.emit("Expand", value, shape.vector, shape=shape.dims)
    return op.emit("ConstantOfShape", shape.vector, value=ir.tensor(one.make().reshape(1)), shape=shape.dims)


@family.converts("DiagonalFill", expects=fill_operand)
def diagonal(op: Op) -> Value:
    """The diagonal of a tall matrix starts anew below its square."""
    if _is_small(op):
        return _constant(op, op.args)
    shape, one = fill_shape(op), _filled(op, _with_shape(op, [1, 1])).make().reshape(())
    if shape.dims is None:
        op.needs_shape("the rank of the result is unknown")
    if len(shape.dims) < 2:
        op.unsupported("a vector has no diagonal", code="invalid-operands")
    if len(shape.dims) > 2 and len({dim for dim in shape.dims if isinstance(dim, int)}) > 1:
        op.unsupported(f"the dims {list(shape.dims)} must be of equal length", code="invalid-operands")
    # From one element of the diagonal to the next: one more along every axis.
    step = op.const(1, np.int64)
    for axis in range(1, len(shape.dims)):
        tail = slice_axis(op, shape.vector, 0, axis, len(shape.dims))
        step = op.emit("Add", step, op.emit("ReduceProd", tail, keepdims=0, shape=[]))
    on = op.emit("Equal", op.emit("Mod", _places(op, shape), step), op.const(0, np.int64))
    return shape.reshape(op, select(op, on, op.const(one), op.const(np.zeros_like(one))))


@family.converts("RangeFill", expects=fill_operand)
def range_fill(op: Op) -> Value:
    shape = fill_shape(op)
    return shape.reshape(op, op.emit("Cast", _places(op, shape), to=int(ir.DataType.FLOAT)))


def _places(op: Op, shape: FillShape) -> Value:
    """0, 1, ... for every element, a vector."""
    return indices(op, op.emit("ReduceProd", shape.vector, keepdims=1, shape=[1]))


@dataclass(frozen=True)
class FillShape:
    """The shape of what a fill makes: as an int64 vector, and what is known of it now, None where not even the rank."""

    vector: Value
    dims: tuple[Any, ...] | None

    def reshape(self, op: Op, x: Value) -> Value:
        """``x`` in this shape."""
        return op.emit("Reshape", x, self.vector, allowzero=1, shape=self.dims)


def fill_shape(op: Op) -> FillShape:
    """The shape that a fill's arguments and its first operand say."""
    extra = op.args.integers("extra_shape", default=())
    shape = op.args.integers("shape", default=())
    as_shape = op.args.flag("input_as_shape", default=False)
    if not op.has_input(0):
        if extra or as_shape:
            op.unsupported("'extra_shape' and 'input_as_shape' need an input", code="invalid-argument")
        if any(dim < 0 for dim in shape):
            op.unsupported(f"the shape {list(shape)} has a negative dimension", code="invalid-argument")
        return FillShape(op.const(shape, np.int64), shape)
    if shape:
        op.unsupported("'shape' and an input are given at the same time", code="invalid-argument")
    first = op.input(0)
    if not as_shape:
        dims = op.shape(first)
        whole = op.const(list(dims), np.int64) if dims.is_static() else op.emit("Shape", first)
        return FillShape(_concat(op, whole, extra), (*dims, *extra))
    if op.dtype(first) != ir.DataType.INT64 or op.rank(first) != 1:
        op.unsupported("the input is to be a shape: it must be a vector of int64", code="invalid-operands")
    held = op.known(first)
    if held is not None:
        return FillShape(op.const([*held, *extra], np.int64), (*map(int, held), *extra))
    rank = op.static_dim(first, 0)
    return FillShape(_concat(op, first, extra), None if rank is None else (*[None] * rank, *extra))


def _concat(op: Op, dims: Value, extra: Sequence[int]) -> Value:
    return op.emit("Concat", dims, op.const(extra, np.int64), axis=0) if extra else dims


def _is_small(op: Op) -> bool:
    """Whether what the operator makes is of a fixed shape, and small enough to be stored."""
    return not op.has_input(0) and math.prod(op.args.integers("shape", default=())) <= _STORED


def _constant(op: Op, args: Args) -> Value:
    return _tensor(op, _filled(op, args))


def _filled(op: Op, args: Args) -> Filled:
    """What the fill makes, with ``args`` in the place of the operator's own."""
    op.args.ignore("values", *_SHAPE_ARGS)
    try:
        filled = FILLS[op.type](FillOp(args, _values(op), (), ()))
    except FillError as error:
        op.unsupported(str(error), code="invalid-argument")
    op.args.ignore(*args.read)
    return filled


def _values(op: Op) -> Values | None:
    raw = op.args.raw("values")
    return None if raw is None else Values(lambda: wire.Span.of(raw.SerializeToString()))


def _with_shape(op: Op, shape: Sequence[int]) -> Args:
    own = (arg for arg in op.view.proto.arg if arg.name not in _SHAPE_ARGS)
    return Args(iter([*own, Argument(name="shape", ints=shape)]))


def _count(op: Op) -> int:
    """How many values are given."""
    raw = op.args.raw("values")
    if raw is None:
        op.unsupported("argument 'values' is missing", code="invalid-argument")
    if op.type == "GivenTensorByteStringToUInt8Fill":
        return sum(map(len, raw.strings))
    return len(raw.floats) + len(raw.ints) + len(raw.strings)


def _onnx_type(filled: Filled) -> ir.DataType:
    return ir.DataType.STRING if filled.dtype.kind == "O" else ir.DataType.from_numpy(filled.dtype)


def _tensor(op: Op, filled: Filled) -> Value:
    if filled.dtype.kind == "O":
        return op.const(filled.make().reshape(filled.shape))
    shape = ir.Shape(filled.shape)
    lazy = ir.LazyTensor(lambda: ir.tensor(filled.make().reshape(filled.shape)), _onnx_type(filled), shape)
    return op.scope.constants.add_tensor(lazy, f"{op.view.outputs[0]}/values")
