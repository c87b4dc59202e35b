"""ATen operators that join tensors and cut them into parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.shapes import size_vector, slice_axis, unsqueeze
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.ops.aten.operands import name_of, promoted

family = Family("aten slicing")


@family.converts("cat", "_cat", "concat", "stack", "_stack")
def join(op: Op) -> Value:
    """aten::cat | stack(tensors...; dim=0): along a dim, or along a new one. Empty vectors do not count in cat."""
    values = promoted(op, op.input(0), *op.inputs[1:])
    dim = op.args.integer("dim", default=0)
    if name_of(op).strip("_") == "stack":
        axis = op.axis(dim, op.rank(values[0]) + 1, "dim")
        return op.emit("Concat", *(unsqueeze(op, value, [axis]) for value in values), axis=axis)
    values = [v for v in values if not (op.rank(v) == 1 and op.static_dim(v, 0) == 0)] or values[:1]
    if len({op.rank(v) for v in values}) > 1 and any(op.rank(v) == 1 and op.static_dim(v, 0) is None for v in values):
        op.needs_shape("the size of a vector, which is left out if it is empty, is unknown")
    return op.emit("Concat", *values, axis=op.axis(dim, op.rank(values[0]), "dim"))


@family.converts("chunk", "unsafe_chunk")
def convert_chunk(op: Op) -> Outputs:
    """aten::chunk(self; chunks, dim=0): parts of one size, the last one smaller; there may be fewer than asked for."""
    x, chunks = op.input(0), op.args.integer("chunks")
    axis = op.axis(op.args.integer("dim", default=0), op.rank(x), "dim")
    if chunks < 1:
        op.unsupported(f"chunks must be positive, not {chunks}", code="invalid-argument")
    dim = op.static_dim(x, axis)
    if dim is not None:
        return _pieces(op, x, axis, -(-dim // chunks))
    if op.output_count != chunks:
        op.needs_shape(f"the size of dim {axis}, of which the number of chunks depends, is unknown")
    length = op.emit("Div", add(op, size_vector(op, x, axis), chunks - 1), op.const([chunks], np.int64))
    starts = [mul(op, length, i) for i in range(chunks + 1)]
    along = op.const([axis], np.int64)
    return tuple(op.emit("Slice", x, start, end, along) for start, end in pairwise(starts))


@family.converts("split", "unsafe_split")
def convert_split(op: Op) -> Outputs:
    """aten::split(self; split_size, dim=0): parts of this size, the last one smaller."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim", default=0), op.rank(x), "dim")
    given = op.args.raw("split_size")
    if given is not None and given.HasField("i"):
        return _pieces(op, x, axis, op.args.integer("split_size"))
    return _sections(op, x, axis, op.args.integers("split_size"))


@family.converts("split_with_sizes", "unsafe_split_with_sizes")
def convert_split_with_sizes(op: Op) -> Outputs:
    """aten::split_with_sizes(self; split_sizes, dim=0)."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim", default=0), op.rank(x), "dim")
    return _sections(op, x, axis, op.args.integers("split_sizes"))


def _sections(op: Op, x: Value, axis: int, parts: Sequence[int]) -> Outputs:
    return _as_tuple(op.emit("Split", x, op.const(list(parts), np.int64), outputs=len(parts), axis=axis))


def _pieces(op: Op, x: Value, axis: int, length: int) -> Outputs:
    """Return the outputs that the operator lists: pieces of a length along an axis; the last one may be shorter."""
    starts = [i * length for i in range(op.output_count)]
    dim = op.static_dim(x, axis)
    if dim is not None and (length < 1 or max(1, -(-dim // length)) != op.output_count):
        op.unsupported(
            f"dim {axis} of size {dim} has {-(-dim // max(length, 1))} parts of size {length}, "
            f"but the operator lists {op.output_count} outputs",
            code="invalid-operands",
        )
    return tuple(slice_axis(op, x, axis, start, start + length) for start in starts)


def _as_tuple(outputs: Outputs) -> tuple[Value | None, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


@family.converts("unbind")
def convert_unbind(op: Op) -> Outputs:
    """aten::unbind(self; dim=0): a slice for each output."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim", default=0), op.rank(x), "dim")
    return tuple(op.emit("Gather", x, op.const(i, np.int64), axis=axis) for i in range(op.output_count))


@family.converts("narrow", "narrow_copy")
def convert_narrow(op: Op) -> Value:
    """aten::narrow(self; dim, start, length)."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim"), op.rank(x), "dim")
    start, length = op.args.integer("start"), op.args.integer("length")
    if start < 0:
        dim = op.static_dim(x, axis)
        if dim is None:
            op.needs_shape(f"the size of dim {axis}, from whose end start is counted, is unknown")
        start += dim
    return slice_axis(op, x, axis, start, start + length)


@family.converts("select")
def select_index(op: Op) -> Value:
    """aten::select(self; dim, index)."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim"), op.rank(x), "dim")
    return op.emit("Gather", x, op.const(op.args.integer("index"), np.int64), axis=axis)


@family.converts("slice")
def slice_dim(op: Op) -> Value:
    """aten::slice(self; dim=0, start=0, end=max, step=1)."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim", default=0), op.rank(x), "dim")
    start = op.args.integer("start", default=0)
    end = op.args.integer("end", default=np.iinfo(np.int64).max)
    step = op.args.integer("step", default=1)
    if step < 1:
        op.unsupported(f"step must be positive, not {step}", code="invalid-argument")
    return op.emit("Slice", x, *(op.const([v], np.int64) for v in (start, end, axis, step)))
