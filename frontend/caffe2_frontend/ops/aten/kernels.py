"""Element types of PyTorch's tensors that onnxruntime's CPU kernels do not have, and what stands in for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import onnx_ir as ir

_NARROW: Final = frozenset({ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT16})
_INT16: Final = frozenset({ir.DataType.INT16})
# Integers that an operator has no kernel for, or that ONNX does not give it; those of int32 wrap around alike.
_NOT_OF_INTEGERS: Final[Mapping[str, frozenset[ir.DataType]]] = {
    **dict.fromkeys(("ArgMax", "ArgMin", "Clip", "Max", "Min", "Pad", "ReduceMax", "ReduceMin", "Where"), _INT16),
    **dict.fromkeys(("MatMul", "Trilu", "ReduceSum", "ReduceProd", "ReduceSumSquare", "CumSum", "Gemm"), _NARROW),
    **dict.fromkeys(("Neg", "Relu"), frozenset({ir.DataType.UINT8, ir.DataType.INT16})),
}
# Arithmetic that booleans do not have.
_NOT_OF_BOOLEANS: Final = frozenset({"Abs", "Add", "Div", "Mod", "Mul", "Neg", "Pow", "Sign", "Sub"})
# Functions that are computed of other floats than double.
_NOT_OF_DOUBLE: Final = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Celu", "Cosh", "Elu", "Erf", "Gelu",
    "HardSigmoid", "HardSwish", "InstanceNormalization", "LeakyRelu", "Mish", "PRelu", "Resize", "Selu", "Sinh",
    "Softplus", "Softsign", "Tan", "ThresholdedRelu",
})  # fmt: skip


def stand_in(op_type: str, dtype: ir.DataType | None, attributes: Mapping[str, Any]) -> ir.DataType | None:
    """Return the element type to compute an operator in, instead of one it has no kernel for; None where it has one."""
    if dtype in _NOT_OF_INTEGERS.get(op_type, ()):
        return ir.DataType.INT32
    if op_type == "ScatterElements" and dtype == ir.DataType.FLOAT16 and attributes.get("reduction"):
        return ir.DataType.FLOAT
    return None


def missing(op_type: str, dtype: ir.DataType | None) -> str:
    """Return the element type that an operator does not have and that nothing stands in for; empty if it has it."""
    if dtype == ir.DataType.DOUBLE and op_type in _NOT_OF_DOUBLE:
        return "double"
    return "bool" if dtype == ir.DataType.BOOL and op_type in _NOT_OF_BOOLEANS else ""
