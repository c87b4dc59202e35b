"""Powers and products of integers, which wrap around: onnxruntime computes them in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, mul
from caffe2_frontend.emit.selection import select
from caffe2_frontend.emit.shapes import cast, size_vector, sizes, slice_axis, squeeze, vector
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value


def integer_power(op: Op, base: Value, exponent: int) -> Value:
    """``base ** exponent`` by repeated squaring, of one exponent that is not negative."""
    if exponent < 0:
        op.unsupported(f"integers have no power of {exponent}", code="invalid-argument")
    dtype = op.dtype(base)
    power = cast(op, base, dtype if dtype == ir.DataType.INT64 else ir.DataType.INT32)
    result = add(op, mul(op, power, 0), 1) if exponent == 0 else None
    while exponent:
        if exponent % 2:
            result = power if result is None else mul(op, result, power)
        exponent //= 2
        if exponent:
            power = mul(op, power, power)
    assert result is not None
    return cast(op, result, dtype)


def integer_powers(op: Op, base: Value, exponents: Value) -> Value:
    """``base ** exponents``, elementwise, of one element type, by repeated squaring in a loop.

    Those of negative exponents are rounded toward zero: 0 but of 1 and -1, and 0 of 0.
    """
    dtype = op.dtype(base)
    base, exponents = cast(op, base, ir.DataType.INT64), cast(op, exponents, ir.DataType.INT64)
    is_negative = binary(op, "Less", exponents, 0)
    is_unit = binary(op, "Equal", op.emit("Abs", base), 1)
    is_zero = op.emit("And", is_negative, op.emit("Not", is_unit))
    power = select(op, is_zero, op.const(0, base), base)
    # Of 1 and -1 the parity counts.
    rest = select(op, is_negative, binary(op, "Sub", 2, binary(op, "Mod", exponents, 2)), exponents)
    ones = add(op, mul(op, add(op, power, rest), 0), 1)

    def step(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        result, power, rest = states
        is_odd = binary(inside, "Equal", binary(inside, "Mod", rest, 2), 1)
        result = mul(inside, result, select(inside, is_odd, power, inside.const(1, power)))
        rest = binary(inside, "Div", rest, 2)
        return [_any_positive(inside, rest), result, mul(inside, power, power), rest], []

    (result, _, _), _ = loop(op, None, _any_positive(op, rest), [ones, power, rest], step)
    return cast(op, result, dtype)


def _any_positive(op: Op, x: Value) -> Value:
    """Whether any element is positive, a bool []; none of no elements is."""
    count = op.emit("ReduceSum", cast(op, binary(op, "Greater", x, 0), ir.DataType.INT64), keepdims=0)
    return binary(op, "Greater", count, 0)


def integer_product(op: Op, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """The product of int64 ``x`` over ``axes``, of halves in a loop; 1 of no elements."""
    for axis in axes:
        x = _product_along(op, x, axis)
    return x if keep else squeeze(op, x, axes)


def _product_along(op: Op, x: Value, axis: int) -> Value:
    """The product along an axis, which stays."""
    shape = op.shape(x)
    if shape[axis] == 1:
        return x
    open_shape = ir.Shape([*shape[:axis], None, *shape[axis + 1 :]])
    one = op.const([1], np.int64)

    def step(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        (parts,) = states
        count = size_vector(inside, parts, axis)
        half = inside.emit("Div", count, inside.const([2], np.int64))
        twice, none = add(inside, half, half), inside.const([0], np.int64)
        cut = [
            inside.emit("Slice", parts, start, end, inside.const([axis], np.int64), shape=open_shape)
            for start, end in ((none, half), (half, twice), (twice, count))
        ]
        made = inside.emit("Concat", mul(inside, cut[0], cut[1]), cut[2], axis=axis, shape=open_shape)
        return [_is_several(inside, made, axis), made], []

    (made,), _ = loop(op, None, _is_several(op, x, axis), [x], step, [open_shape])
    ones = op.emit("Expand", one, vector(op, [*sizes(op, x, 0, axis), 1, *sizes(op, x, axis + 1)]))
    return slice_axis(op, op.emit("Concat", made, ones, axis=axis), axis, 0, 1)


def _is_several(op: Op, x: Value, axis: int) -> Value:
    """Whether there is more than one element along an axis, a bool []."""
    return squeeze(op, binary(op, "Greater", size_vector(op, x, axis), 1), [0])
