"""Powers of integers, which wrap around as products do: onnxruntime computes them in double precision."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, mul
from caffe2_frontend.emit.selection import select
from caffe2_frontend.emit.shapes import cast
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
