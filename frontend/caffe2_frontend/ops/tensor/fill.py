"""Fills: operators that generate tensors from arguments.

The shape is the argument ``shape``, the shape of the first operand, or with ``input_as_shape`` the contents of that
operand; ``extra_shape`` is appended to the latter two. <shape> in a signature stands for these arguments: shape=[],
extra_shape=[], input_as_shape=0. A small tensor of a fixed shape becomes a constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge import wire
from caffe2_bridge.init.fills import FILLS, Filled, FillError, FillOp, Values
from caffe2_bridge.netdef.views import Args, OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument
from caffe2_frontend.emit.arithmetic import scalar
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.selection import select
from caffe2_frontend.emit.shapes import indices, slice_axis
from caffe2_frontend.interop.files.strip_weights import SMALL_TENSOR_BYTES
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("fill")

_GIVEN: Final = (
    "GivenTensorBoolFill", "GivenTensorByteStringToUInt8Fill", "GivenTensorDoubleFill", "GivenTensorFill",
    "GivenTensorInt16Fill", "GivenTensorInt64Fill", "GivenTensorIntFill", "GivenTensorStringFill",
)  # fmt: skip
# Larger constants are not stored, but generated when the model runs.
_MAX_STORED_ELEMENTS: Final = 1024
_SHAPE_ARGS: Final = ("shape", "extra_shape", "input_as_shape")


def fill_operand(op: OpView, index: int) -> TensorInfo:
    """Describe the first operand of a fill: an int64 vector if ``input_as_shape``."""
    if index == 0 and op.args.flag("input_as_shape", default=False):
        return TensorInfo(ir.DataType.INT64, (None,))
    return TensorInfo()


@family.converts(*_GIVEN, expects=fill_operand)
def given_tensor(op: Op) -> Value:
    """GivenTensorFill([X]; values, <shape>, dtype) -> Y.

    Likewise GivenTensor(Bool | Double | Int | Int16 | Int64 | String | ByteStringToUInt8)Fill. Only GivenTensorFill
    reads ``dtype``.
    """
    op.args.ignore("dtype")
    if not op.has_input(0):
        return _constant(op, op.args)
    shape = fill_shape(op)
    return shape.reshape(op, _tensor(op, _filled(op, _with_shape(op, [_count(op)]))))


@family.converts("ConstantFill", "Float16ConstantFill", expects=fill_operand)
def constant(op: Op) -> Value:
    """ConstantFill([X, value]; value=0.0, dtype="FLOAT", <shape>) -> Y.

    Float16ConstantFill(; value, shape) -> Y. The value is an argument, or the one element of the second operand.
    """
    if _is_small(op):
        return _constant(op, op.args)
    shape, one = fill_shape(op), _filled(op, _with_shape(op, []))
    if op.has_input(1):
        require_dtype(op, op.input(1), (_onnx_type(one),), "the value")
    if op.has_input(1) or one.dtype.kind == "O":
        value = scalar(op, op.input(1)) if op.has_input(1) else _tensor(op, one)
        return op.emit("Expand", value, shape.vector, shape=shape.dims)
    return op.emit("ConstantOfShape", shape.vector, value=ir.Tensor(one.make().reshape(1)), shape=shape.dims)


@family.converts("DiagonalFill", expects=fill_operand)
def diagonal(op: Op) -> Value:
    """DiagonalFill([X]; value=0.0, dtype="FLOAT", <shape>) -> Y.

    As in Caffe2, the diagonal of a matrix with more rows than columns continues at the first column below its square.
    """
    if _is_small(op):
        return _constant(op, op.args)
    shape, one = fill_shape(op), _filled(op, _with_shape(op, [1, 1])).make().reshape(())
    if shape.dims is None:
        op.needs_shape("the rank of the result is unknown")
    if len(shape.dims) < 2:
        op.unsupported(
            f"the result must have at least rank 2 to have a diagonal, not {len(shape.dims)}", code="invalid-operands"
        )
    if len(shape.dims) > 2 and len({dim for dim in shape.dims if isinstance(dim, int)}) > 1:
        op.unsupported(
            f"the dims of a result of rank 3 or more must be equal, not {list(shape.dims)}", code="invalid-operands"
        )
    # From one element of the diagonal to the next: one more along every axis.
    step = op.const(1, np.int64)
    for axis in range(1, len(shape.dims)):
        tail = slice_axis(op, shape.vector, 0, axis, len(shape.dims))
        step = op.emit("Add", step, op.emit("ReduceProd", tail, keepdims=0, shape=[]))
    on_diagonal = op.emit("Equal", op.emit("Mod", _flat_indices(op, shape), step), op.const(0, np.int64))
    return shape.reshape(op, select(op, on_diagonal, op.const(one), op.const(np.zeros_like(one))))


@family.converts("RangeFill", expects=fill_operand)
def range_fill(op: Op) -> Value:
    """RangeFill([X]; <shape>) -> Y: 0, 1, 2, ... as float."""
    shape = fill_shape(op)
    return shape.reshape(op, op.emit("Cast", _flat_indices(op, shape), to=int(ir.DataType.FLOAT)))


def _flat_indices(op: Op, shape: FillShape) -> Value:
    """Return the index of each element in the flattened result, int64 [count]."""
    return indices(op, op.emit("ReduceProd", shape.vector, keepdims=1, shape=[1]))


@dataclass(frozen=True)
class FillShape:
    """The shape of a fill's result.

    Attributes:
        vector: the shape as an int64 vector.
        dims: what is known of the dims at conversion; None if not even the rank is.
    """

    vector: Value
    dims: tuple[Any, ...] | None

    def reshape(self, op: Op, x: Value) -> Value:
        """Return ``x`` in this shape."""
        return op.emit("Reshape", x, self.vector, allowzero=1, shape=self.dims)


def fill_shape(op: Op) -> FillShape:
    """Return the shape that the arguments and the first operand of a fill give."""
    extra = op.args.integers("extra_shape", default=())
    shape = op.args.integers("shape", default=())
    as_shape = op.args.flag("input_as_shape", default=False)
    if not op.has_input(0):
        if extra or as_shape:
            op.unsupported("'extra_shape' and 'input_as_shape' require an input", code="invalid-argument")
        if any(dim < 0 for dim in shape):
            op.unsupported(f"'shape' must not have negative dims: {list(shape)}", code="invalid-argument")
        return FillShape(op.const(shape, np.int64), shape)
    if shape:
        op.unsupported("'shape' and an input must not both be given", hint="remove 'shape'", code="invalid-argument")
    first = op.input(0)
    if not as_shape:
        dims = op.shape(first)
        vector = op.const(list(dims), np.int64) if dims.is_static() else op.emit("Shape", first)
        return FillShape(_concat(op, vector, extra), (*dims, *extra))
    if op.dtype(first) != ir.DataType.INT64 or op.rank(first) != 1:
        op.unsupported(
            "the input must be an int64 vector with input_as_shape=1", hint="Cast it to INT64", code="invalid-operands"
        )
    held = op.known(first)
    if held is not None:
        return FillShape(op.const([*held, *extra], np.int64), (*map(int, held), *extra))
    rank = op.list_length(first)
    return FillShape(_concat(op, first, extra), None if rank is None else (*[None] * rank, *extra))


def _concat(op: Op, dims: Value, extra: Sequence[int]) -> Value:
    """Append ``extra`` to a vector of dims."""
    return op.emit("Concat", dims, op.const(extra, np.int64), axis=0) if extra else dims


def _is_small(op: Op) -> bool:
    """Return whether the result has a fixed shape and is small enough to be stored."""
    return not op.has_input(0) and math.prod(op.args.integers("shape", default=())) <= _MAX_STORED_ELEMENTS


def _constant(op: Op, args: Args) -> Value:
    """Return the fill's result as a constant."""
    return _tensor(op, _filled(op, args))


def _filled(op: Op, args: Args) -> Filled:
    """Evaluate the fill with ``args`` in place of the operator's own arguments."""
    op.args.ignore("values", *_SHAPE_ARGS)
    try:
        filled = FILLS[op.type](FillOp(args, _values(op), (), ()))
    except FillError as error:
        op.unsupported(str(error), code="invalid-argument")
    op.args.ignore(*args.read)
    return filled


def _values(op: Op) -> Values | None:
    """Return the argument ``values``, decoded on demand; None if it is missing."""
    raw = op.args.raw("values")
    return None if raw is None else Values(lambda: wire.Span.of(raw.SerializeToString()), parsed=raw)


def _with_shape(op: Op, shape: Sequence[int]) -> Args:
    """Return the operator's arguments with ``shape`` in place of all arguments that give the shape."""
    own = (arg for arg in op.view.proto.arg if arg.name not in _SHAPE_ARGS)
    return Args(iter([*own, Argument(name="shape", ints=shape)]))


def _count(op: Op) -> int:
    """Return the number of elements in the argument ``values``."""
    raw = op.args.raw("values")
    if raw is None:
        op.unsupported("argument 'values' is missing", code="invalid-argument")
    if op.type == "GivenTensorByteStringToUInt8Fill":
        return sum(map(len, raw.strings))
    return len(raw.floats) + len(raw.ints) + len(raw.strings)


def _onnx_type(filled: Filled) -> ir.DataType:
    """Return the ONNX element type of a fill's result."""
    return ir.DataType.STRING if filled.dtype.kind == "O" else ir.DataType.from_numpy(filled.dtype)


def _tensor(op: Op, filled: Filled) -> Value:
    """Return a fill's result as a constant, which is generated when it is read; a small one once."""
    if filled.dtype.kind == "O":
        return op.const(filled.make().reshape(filled.shape))
    shape, dtype = ir.Shape(filled.shape), _onnx_type(filled)
    small = math.prod(filled.shape) * filled.dtype.itemsize <= SMALL_TENSOR_BYTES
    lazy = ir.LazyTensor(lambda: ir.Tensor(filled.make().reshape(filled.shape)), dtype, shape, cache=small)
    return op.scope.constants.add_tensor(lazy, f"{op.view.outputs[0]}/values")
