"""Adapters of operators that move elements: shapes, slices, pads, indices."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.operators import REDUCTIONS
from caffe2_frontend.interop.types import INT64
from caffe2_frontend.opsets.rewriter import Rewriter
from caffe2_frontend.opsets.rules import Rules

rules = Rules()

_FAR: Final = np.iinfo(np.int64).max


@rules.before(15, "Shape")
def slice_of_shape(at: Rewriter) -> ir.Value | None:
    """Slice the shape from ``start`` to ``end``."""
    if not at.has("start") and not at.has("end"):
        return None
    start, end = at.integer("start", 0), at.integer("end", _FAR)
    whole = at.emit("Shape", at.input(0))
    return at.part(whole, start, end)


@rules.before(14, "Reshape")
def reshape_without_allowzero(at: Rewriter) -> ir.Value | None:
    """Make an empty tensor of a shape that may hold a 0, and reshape any other tensor."""
    allowed = at.pop_integer("allowzero", 0)
    shape = at.constant(1)
    if not allowed or (shape is not None and not np.any(shape == 0)):
        return None
    x, wanted = at.input(0), at.input(1)
    if shape is not None:
        return _filled(at, wanted, at.dtype(x))
    y = at.node.outputs[0]
    is_empty = at.emit("Equal", at.emit("Size", x), at.const(0, np.int64))
    then = at.body([], lambda: [_filled(at, wanted, at.dtype(x))], "empty")
    other = at.body([], lambda: [at.emit_old("Reshape", x, wanted, like=y)], "reshaped")
    return at.emit_old("If", is_empty, like=y, then_branch=then, else_branch=other)


def _filled(at: Rewriter, shape: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return a tensor without elements of a shape that holds a 0, or of which the -1 stands for one."""
    shape = at.emit("Max", shape, at.const(0, np.int64))
    zero = ir.Tensor(np.zeros(1, np.float32 if dtype == ir.DataType.STRING else dtype.numpy()))
    empty = at.emit("ConstantOfShape", shape, value=zero)
    return at.cast(empty, dtype)


def _axes_to_attribute(at: Rewriter, index: int = 1) -> None:
    """Move constant axes from an operand to the attribute ``axes``, counted from the front."""
    if not at.has_input(index):
        return
    axes = at.constant(index)
    if axes is None:
        at.refuse("its axes are computed at run time")
    rank = at.rank(at.input(0)) if at.node.op_type != "Unsqueeze" else at.rank(at.node.outputs[0])
    at.set("axes", sorted(int(axis) % rank if rank else int(axis) for axis in axes.reshape(-1)))
    at.keep_inputs(index)


@rules.before(13, "Squeeze", "Unsqueeze")
def squeeze(at: Rewriter) -> None:
    """Move the axes from an operand to an attribute."""
    _axes_to_attribute(at)


@rules.before(18, *sorted(REDUCTIONS - {"ReduceSum"}))
def reduction(at: Rewriter) -> ir.Value | None:
    """Move the axes from an operand to an attribute."""
    return _reduction(at)


def _reduction_over_computed_axes(at: Rewriter) -> ir.Value:
    """Reduce axis by axis. Where an axis is not among the given ones, its dim stays.

    The reduced tensor is put before the tensor along the axis, and the one or the other is cut out.
    """
    x, rank = at.input(0), at.rank(at.input(0))
    zero, one = at.const([0], np.int64), at.const([1], np.int64)
    axes = at.from_front(at.input(1), at.const(rank, np.int64))
    for axis in range(rank):
        found = at.cast(at.emit("Equal", axes, at.const(axis, np.int64)), ir.DataType.INT64)
        count = at.emit("ReduceSum", found, at.const([0], np.int64), keepdims=1)
        is_given = at.emit("Less", zero, count)
        place = at.const([axis], np.int64)
        reduced = at.emit(at.node.op_type, x, place, keepdims=1)
        both = at.emit("Concat", reduced, x, axis=axis)
        end = at.emit("Add", at.part(at.emit("Shape", x), axis, axis + 1), one)
        start = at.emit("Where", is_given, zero, one)
        x = at.emit("Slice", both, start, at.emit("Where", is_given, one, end), place)
    return x


def _reduction(at: Rewriter) -> ir.Value | None:
    """Move the axes to an attribute, or reduce along computed ones; without axes, all dims were reduced."""
    noop = at.integer("noop_with_empty_axes", 0)
    if at.has_input(1) and at.constant(1) is None and noop and at.integer("keepdims", 1):
        return _reduction_over_computed_axes(at)
    at.node.attributes.pop("noop_with_empty_axes", None)
    axes = at.constant(1)
    if axes is not None and not axes.size:
        if noop:
            return at.emit("Identity", at.input(0))
        at.keep_inputs(1)
    if noop and not at.has_input(1):
        return at.emit("Identity", at.input(0))
    _axes_to_attribute(at)
    return None


@rules.before(13, "ReduceSum")
def reduce_sum(at: Rewriter) -> ir.Value | None:
    """Adapt ReduceSum like the other reductions, five versions earlier."""
    return _reduction(at)


@rules.before(18, "Split")
def split_in_equal_parts(at: Rewriter) -> None:
    """State the sizes of uneven parts; without sizes, the number of outputs says how many parts there are."""
    if not at.has("num_outputs"):
        return
    x, axis, count = at.input(0), at.integer("axis", 0), at.pop_integer("num_outputs", 1)
    size = x.shape[axis] if x.shape is not None else None
    if isinstance(size, int) and size % count:
        part = -(-size // count)
        at.replace_input(1, at.const([part] * (count - 1) + [size - part * (count - 1)], np.int64))
    # Of a dim of unknown size the parts are equal, or the runtime refuses it, as Caffe2 does.


@rules.before(13, "Split")
def split(at: Rewriter) -> tuple[ir.Value, ...] | None:
    """Move the sizes from an operand to an attribute; slice by those computed at run time."""
    if not at.has_input(1):
        return None
    sizes = at.constant(1)
    if sizes is not None:
        at.set("split", [int(size) for size in sizes])
        at.keep_inputs(1)
        return None
    axis = at.const([at.integer("axis", 0)], np.int64)
    start, parts = at.const([0], np.int64), []
    for index in range(len(at.node.outputs)):
        size = at.part(at.input(1), index, index + 1)
        end = at.emit("Add", start, size)
        parts.append(at.emit("Slice", at.input(0), start, end, axis))
        start = end
    return tuple(parts)


@rules.before(11, "Slice")
def slice_of_open_dims(at: Rewriter) -> ir.Value | None:
    """Gather slices of symbolic dims: inference of opset 10 gives them those dims, and runtimes reuse memory by it."""
    if at.target < 10:
        return None
    dims, axes = at.input(0).shape, at.constant(3)
    if dims is not None and (axes is not None or not at.has_input(3)):
        sliced = range(len(dims)) if axes is None else [int(axis) for axis in axes]
        if all(isinstance(dims[axis], int) for axis in sliced):
            return None
    return _slice_by_gather(at)


@rules.before(10, "Slice")
def slice_(at: Rewriter) -> ir.Value | None:
    """Move starts, ends and axes to attributes, where there are no steps; gather other slices along each axis."""
    constants = [at.constant(index) for index in (1, 2, 3, 4)]
    steps = constants[3]
    known = constants[0] is not None and constants[1] is not None and (constants[2] is not None or not at.has_input(3))
    if known and (not at.has_input(4) or (steps is not None and np.all(steps == 1))):
        starts, ends, axes = constants[:3]
        assert starts is not None
        assert ends is not None
        rank = at.rank(at.input(0))
        at.set("starts", [int(start) for start in starts])
        at.set("ends", [int(end) for end in ends])
        if axes is not None:
            at.set("axes", [int(axis) % rank for axis in axes])
        at.keep_inputs(1)
        return None
    return _slice_by_gather(at)


def _slice_by_gather(at: Rewriter) -> ir.Value:
    x = at.input(0)
    starts, ends = (at.emit("Cast", at.input(index), to=int(INT64)) for index in (1, 2))
    count = starts.shape[0] if starts.shape is not None else None
    if not isinstance(count, int):
        at.refuse("it slices a number of axes that is known only at run time")
    axes = np.arange(count) if not at.has_input(3) else at.constant(3)
    steps = np.ones(count, np.int64) if not at.has_input(4) else at.constant(4)
    if axes is None or steps is None:
        at.refuse("its axes or steps are computed at run time")
    for number, (given, step) in enumerate(zip(axes, steps, strict=True)):
        axis = int(given) % at.rank(x)
        size = at.element(at.emit("Shape", x), axis)
        index = at.const(number, np.int64)
        start = _clamped(at, at.emit("Gather", starts, index, axis=0), size, int(step))
        end = _clamped(at, at.emit("Gather", ends, index, axis=0), size, int(step))
        x = at.emit("Gather", x, at.emit("Range", start, end, at.const(int(step), np.int64)), axis=axis)
    return x


def _clamped(at: Rewriter, index: ir.Value, size: ir.Value, step: int) -> ir.Value:
    """Return an end of a slice as a position: counted from the front, and within the bounds that the direction has."""
    zero, one = at.const(0, np.int64), at.const(1, np.int64)
    index = at.from_front(index, size)
    low, high = (zero, size) if step > 0 else (at.const(-1, np.int64), at.emit("Sub", size, one))
    return at.emit("Min", at.emit("Max", index, low), high)


@rules.before(11, "Range")
def range_(at: Rewriter) -> ir.Value:
    """Emit as many ones as there are elements, their positions, and a line through them."""
    start, limit, delta = (at.input(index) for index in range(3))
    dtype = at.dtype(start)
    if dtype.is_floating_point():
        count = at.emit("Ceil", at.emit("Div", at.emit("Sub", limit, start), delta))
        count = at.cast(count, INT64)
    else:
        span, step = (at.cast(v, INT64) for v in (at.emit("Sub", limit, start), delta))
        # Ceiling of a quotient that is cut towards zero: a negative one yields no elements either way.
        quotient = at.emit("Div", span, step)
        is_short = at.emit("Not", at.emit("Equal", at.emit("Mul", quotient, step), span))
        same_sign = at.emit(
            "Greater", at.emit("Mul", at.emit("Sign", span), at.emit("Sign", step)), at.const(0, np.int64)
        )
        more = at.cast(at.emit("And", is_short, same_sign), INT64)
        count = at.emit("Add", quotient, more)
    count = at.emit("Max", count, at.const(0, np.int64))
    flag = ir.Tensor(np.ones(1, np.bool_))
    ones = at.emit("ConstantOfShape", at.emit("Reshape", count, at.const([1], np.int64)), value=flag)
    positions = at.emit("Reshape", at.emit("NonZero", ones), at.const([-1], np.int64))
    return at.emit("Add", start, at.emit("Mul", at.cast(positions, dtype), delta))


@rules.before(18, "Pad")
def pad_with_axes(at: Rewriter) -> None:
    """Turn the pads of some axes into those of all axes."""
    if not at.has_input(3):
        return
    axes, rank = at.constant(3), at.rank(at.input(0))
    if axes is None:
        at.refuse("its axes are computed at run time")
    # Position of each axis among those given; the others read the zero that is appended.
    count = len(axes)
    where = {int(axis) % rank: position for position, axis in enumerate(axes)}
    order = [where[axis] + side * count if axis in where else 2 * count for side in (0, 1) for axis in range(rank)]
    pads = at.emit("Concat", at.input(1), at.const([0], np.int64), axis=0)
    at.replace_input(1, at.emit("Gather", pads, at.const(order, np.int64), axis=0))
    at.keep_inputs(3)


@rules.before(11, "Pad")
def pad(at: Rewriter) -> ir.Value | None:
    """Move pads and value to attributes; pad by joining and cutting where pads are computed at run time."""
    pads, value = at.constant(1), at.constant(2)
    fill = 0.0
    if at.has_input(2):
        if value is None:
            at.refuse("its value is computed at run time")
        fill = value.reshape(-1)[0]
    if pads is not None and at.dtype(at.input(0)).is_floating_point():
        at.set("pads", [int(size) for size in pads])
        if at.text("mode", "constant") == "constant":
            at.set("value", float(fill))
        at.keep_inputs(1)
        return None
    if at.text("mode", "constant") != "constant":
        at.refuse("its pads are computed at run time")
    x, rank = at.input(0), at.rank(at.input(0))
    constant = ir.Tensor(np.asarray([fill], at.dtype(x).numpy()))
    zero = at.const([0], np.int64)
    for axis in range(rank):
        sizes = [at.part(at.input(1), axis + side * rank, axis + side * rank + 1) for side in (0, 1)]
        added = [at.emit("Where", at.emit("Less", size, zero), zero, size) for size in sizes]
        head, tail = (at.emit("Sub", some, size) for some, size in zip(added, sizes, strict=True))  # what is cut off
        end = at.emit("Sub", at.part(at.emit("Shape", x), axis, axis + 1), tail)
        x = at.emit("Slice", x, head, end, at.const([axis], np.int64))
        parts = [x]
        for side, size in enumerate(added):
            shape = at.emit("Shape", x)
            dims = [at.emit("Gather", shape, at.const([other], np.int64), axis=0) for other in range(rank)]
            dims[axis] = size
            filled = at.emit("ConstantOfShape", at.emit("Concat", *dims, axis=0), value=constant)
            parts.insert(0 if side == 0 else len(parts), filled)
        x = at.emit("Concat", *parts, axis=axis)
    return x
