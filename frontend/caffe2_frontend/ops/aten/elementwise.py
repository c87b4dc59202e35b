"""Element-wise ATen operators: functions, arithmetic, comparisons, logic, selection, conversion."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, sub
from caffe2_frontend.emit.selection import elementwise_extremum, select, sign
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.ops.aten.operands import (
    as_float,
    as_mask,
    constant,
    is_integral,
    name_of,
    number,
    promoted,
    with_number,
)

family = Family("aten elementwise")

_FUNCTIONS: Final = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sigmoid": "Sigmoid", "tanh": "Tanh", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "reciprocal": "Reciprocal",
}  # fmt: skip
_KEPT: Final = {"abs": "Abs", "neg": "Neg", "sign": "Sign", "relu": "Relu"}
_ROUNDED: Final = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}
_COMPARED: Final = {
    "eq": "Equal", "ne": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
}  # fmt: skip
_LOGIC: Final = {"and": "And", "or": "Or", "xor": "Xor"}


@family.converts(*_FUNCTIONS)
def function(op: Op) -> Value:
    """aten::exp | log | sqrt | ...(self): functions of real numbers; integers become float."""
    return op.emit(_FUNCTIONS[name_of(op)], as_float(op, op.input(0)))


@family.converts("rsqrt")
def convert_rsqrt(op: Op) -> Value:
    """aten::rsqrt(self)."""
    return op.emit("Reciprocal", op.emit("Sqrt", as_float(op, op.input(0))))


@family.converts("log2", "log10", "log1p", "expm1", "erfc")
def scaled_function(op: Op) -> Value:
    """aten::log2 | log10 | log1p | expm1 | erfc(self)."""
    x = as_float(op, op.input(0))
    match name_of(op):
        case "log1p":
            return op.emit("Log", add(op, x, 1.0))
        case "expm1":
            return sub(op, op.emit("Exp", x), 1.0)
        case "erfc":
            return sub(op, 1.0, op.emit("Erf", x))
        case name:
            return mul(op, op.emit("Log", x), 1.4426950408889634 if name == "log2" else 0.4342944819032518)


@family.converts(*_KEPT, "square")
def kept(op: Op) -> Value:
    """aten::abs | neg | sign | relu | square(self)."""
    x, name = op.input(0), name_of(op)
    if name == "square":
        x = cast(op, x, ir.DataType.INT64) if op.dtype(x) == ir.DataType.BOOL else x
        return mul(op, x, x)
    if name == "relu" and is_integral(op.dtype(x)):
        return elementwise_extremum(op, "Max", x, op.const(0, x))  # onnxruntime has no Relu of int64
    if name == "sign":
        return sign(op, x)
    return op.emit(_KEPT[name], x)


@family.converts(*_ROUNDED)
def rounded(op: Op) -> Value:
    """aten::floor | ceil | round(self): to even where halfway; integers are unchanged."""
    x = op.input(0)
    return x if is_integral(op.dtype(x)) else op.emit(_ROUNDED[name_of(op)], x)


@family.converts("trunc", "frac")
def truncated(op: Op) -> Value:
    """aten::trunc | frac(self): the integer and the fractional part."""
    x = op.input(0)
    whole = _toward_zero(op, x)
    return whole if name_of(op) == "trunc" else sub(op, x, whole)


@family.converts("isnan", "logical_not", "bitwise_not")
def unary_test(op: Op) -> Value:
    """aten::isnan | logical_not | bitwise_not(self)."""
    x = op.input(0)
    if name_of(op) == "isnan":
        return op.emit("IsNaN", as_float(op, x))
    if name_of(op) == "bitwise_not" and op.dtype(x) != ir.DataType.BOOL:
        return op.emit("BitwiseNot", x)
    return op.emit("Not", cast(op, x, ir.DataType.BOOL))


def operands(op: Op, name: str = "other") -> list[Value]:
    """Return the two operands, of one type: tensors, or a tensor and the Scalar argument ``name``."""
    if op.has_input(1):
        return promoted(op, op.input(0), op.input(1))
    return list(with_number(op, op.input(0), number(op, name)))


@family.converts("add", "sub", "rsub", "subtract")
def sum_or_difference(op: Op) -> Value:
    """aten::add | sub | rsub(self, other; alpha=1): ``self + alpha * other``, or their difference."""
    a, b = operands(op)
    alpha = number(op, "alpha", 1)
    if name_of(op) == "rsub":
        return sub(op, b, a if alpha == 1 else mul(op, a, alpha))
    scaled = b if alpha == 1 else mul(op, b, alpha)
    return add(op, a, scaled) if name_of(op) == "add" else sub(op, a, scaled)


@family.converts("mul", "multiply")
def product(op: Op) -> Value:
    """aten::mul(self, other)."""
    a, b = operands(op)
    return op.emit("And" if op.dtype(a) == ir.DataType.BOOL else "Mul", a, b)


@family.converts("div", "divide", "true_divide")
def quotient(op: Op) -> Value:
    """aten::div(self, other): true division, also of integers."""
    a, b = operands(op)
    return div(op, as_float(op, a), as_float(op, b))


@family.converts("floor_divide", "fmod", "remainder")
def division(op: Op) -> Value:
    """aten::floor_divide | fmod | remainder(self, other).

    floor_divide rounds towards zero, as PyTorch did when it exported to Caffe2. fmod has the sign of ``self``,
    remainder that of ``other``.
    """
    a, b = operands(op)
    integral = is_integral(op.dtype(a))
    match name_of(op):
        case "floor_divide":
            return _toward_zero(op, div(op, a, b))
        case "remainder" if integral:
            return op.emit("Mod", a, b)
        case "fmod":
            return op.emit("Mod", a, b, fmod=1)
    rest = op.emit("Mod", a, b, fmod=1)
    zero = op.const(0.0, rest)
    differs = op.emit("Xor", op.emit("Less", rest, zero), op.emit("Less", b, zero))
    nonzero = op.emit("Not", op.emit("Equal", rest, zero))
    return select(op, op.emit("And", nonzero, differs), add(op, rest, b), rest)


def _toward_zero(op: Op, x: Value) -> Value:
    if is_integral(op.dtype(x)):
        return x
    return select(op, binary(op, "Less", x, 0.0), op.emit("Ceil", x), op.emit("Floor", x))


@family.converts("pow")
def power(op: Op) -> Value:
    """aten::pow(self, exponent): either may be a Scalar argument. Powers of integers are exact up to 53 bits."""
    if op.has_input(1):
        base, exponent = promoted(op, op.input(0), op.input(1))
    elif "self" in op.args:
        exponent, base = with_number(op, op.input(0), number(op, "self"))
    else:
        given = number(op, "exponent")
        base, exponent = with_number(op, op.input(0), given)
        if is_integral(op.dtype(base)) and given < 0:
            op.unsupported(f"integers have no power of {given}", code="invalid-argument")
    dtype = op.dtype(base)
    if dtype == ir.DataType.BOOL:
        op.unsupported("booleans have no powers", code="dtype")
    if is_integral(dtype) and dtype != ir.DataType.INT32:
        base, exponent = (cast(op, v, ir.DataType.INT64) for v in (base, exponent))
    return cast(op, op.emit("Pow", base, exponent), dtype)


@family.converts(*_COMPARED)
def comparison(op: Op) -> Value:
    """aten::eq | ne | lt | le | gt | ge(self, other)."""
    a, b = operands(op)
    if op.dtype(a) == ir.DataType.BOOL and name_of(op) not in ("eq", "ne"):
        a, b = (cast(op, v, ir.DataType.INT32) for v in (a, b))
    result = op.emit(_COMPARED[name_of(op)], a, b)
    return op.emit("Not", result) if name_of(op) == "ne" else result


@family.converts(*(f"__{name}__" for name in _LOGIC), *(f"bitwise_{name}" for name in _LOGIC))
def bitwise(op: Op) -> Value:
    """aten::bitwise_and | bitwise_or | bitwise_xor(self, other) or ``__and__`` ...: of bits or booleans.

    The result has the type of ``self``.
    """
    a, b = operands(op)
    kind, dtype = _LOGIC[name_of(op).strip("_").removeprefix("bitwise_")], op.dtype(op.input(0))
    if op.dtype(a) == ir.DataType.BOOL:
        return op.emit(kind, a, b)
    if dtype == ir.DataType.BOOL:
        op.unsupported("PyTorch does not store the bits of integers as booleans", code="dtype")
    return cast(op, op.emit(f"Bitwise{kind}", a, b), dtype)


@family.converts(*(f"logical_{name}" for name in _LOGIC))
def logical(op: Op) -> Value:
    """aten::logical_and | logical_or | logical_xor(self, other): of numbers that are not zero."""
    a, b = (cast(op, op.input(i), ir.DataType.BOOL) for i in (0, 1))
    return op.emit(_LOGIC[name_of(op).removeprefix("logical_")], a, b)


@family.converts("maximum", "minimum")
def extremum(op: Op) -> Value:
    """aten::maximum | minimum(self, other)."""
    return extremum_of(op, "Max" if name_of(op) == "maximum" else "Min")


def extremum_of(op: Op, kind: str) -> Value:
    """Return the elements of two tensors that are larger (``Max``) or smaller (``Min``)."""
    return elementwise_extremum(op, kind, *promoted(op, op.input(0), op.input(1)))


@family.converts("clamp", "clamp_min", "clamp_max")
def convert_clamp(op: Op) -> Value:
    """aten::clamp(self[, min, max]; min, max): the limits are tensors or arguments; of both, the maximum wins."""
    x = op.input(0)
    bounds: list[tuple[str, Value]] = []
    kinds = {"clamp": ("Max", "Min"), "clamp_min": ("Max",), "clamp_max": ("Min",)}[name_of(op)]
    for index, kind in enumerate(kinds, 1):
        name = "min" if kind == "Max" else "max"
        if op.has_input(index):
            bounds.append((kind, cast(op, op.input(index), op.dtype(x))))
        elif name in op.args:
            bounds.append((kind, constant(op, name, x)))
    if not bounds:
        op.unsupported("one of the arguments min and max must be given", code="invalid-argument")
    for kind, bound in bounds:
        x = elementwise_extremum(op, kind, x, bound)
    return x


@family.converts("where", "_s_where")
def convert_where(op: Op) -> Outputs:
    """aten::where(condition, self, other): either may be a Scalar argument; of the condition alone, indices per dim."""
    alone = not (op.has_input(2) or "self" in op.args or "other" in op.args)
    condition = cast(op, op.input(0), ir.DataType.BOOL) if alone else as_mask(op, op.input(0))
    if op.has_input(2):
        return select(op, condition, *promoted(op, op.input(1), op.input(2)))
    if "self" not in op.args and "other" not in op.args:
        found = op.emit("Transpose", op.emit("NonZero", condition), perm=[1, 0])
        return tuple(op.emit("Gather", found, op.const(i, "int64"), axis=1) for i in range(op.output_count))
    if not op.has_input(1):
        chosen = number(op, "self"), number(op, "other")
        kind = "float32" if any(isinstance(value, float) for value in chosen) else "int64"
        return select(op, condition, op.const(chosen[0], kind), op.const(chosen[1], kind))
    if "self" in op.args:
        b, a = with_number(op, op.input(1), number(op, "self"))
    else:
        a, b = with_number(op, op.input(1), number(op, "other"))
    return select(op, condition, a, b)


@family.converts("masked_fill")
def convert_masked_fill(op: Op) -> Value:
    """aten::masked_fill(self, mask[, value]; value): ``value`` where the mask is true."""
    x, mask = op.input(0), as_mask(op, op.input(1), of_integers=True)
    value = cast(op, op.input(2), op.dtype(x)) if op.has_input(2) else constant(op, "value", x)
    return select(op, mask, value, x)


@family.converts("addcmul", "addcdiv")
def add_combined(op: Op) -> Value:
    """aten::addcmul | addcdiv(self, tensor1, tensor2; value=1): ``self + value * tensor1 * tensor2``, or ``/``."""
    x, a, b = promoted(op, *(op.input(i) for i in range(3)))
    combine = mul if name_of(op) == "addcmul" else div
    return add(op, x, combine(op, mul(op, a, number(op, "value", 1)), b))


@family.converts("lerp")
def interpolate(op: Op) -> Value:
    """aten::lerp(self, end[, weight]; weight): ``self + weight * (end - self)``."""
    x, end = op.input(0), op.input(1)
    weight = op.input(2) if op.has_input(2) else number(op, "weight")
    return add(op, x, mul(op, sub(op, end, x), weight))
