"""Converters of the operator ATen, by the ATen operator that its argument ``operator`` names.

PyTorch's exporters write it for what has no ONNX operator. The specification is Caffe2's `ATen` operator of torch
1.9.1: inputs are the tensors of the ATen schema, and arguments all others, under their names in the schema; trailing
arguments that have their defaults may be left out. Operators that it lacks (the `_like` fills, `slice` with an end)
are those of PyTorch.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

import onnx_ir as ir

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.registry import merge
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.context import LoweringContext
from caffe2_frontend.lowering.family import Conversion, Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.ops.aten import (
    activations,
    conversion,
    elementwise,
    indexing,
    matrix,
    nn,
    reduction,
    shape,
    slicing,
)
from caffe2_frontend.ops.aten.operands import TENSOR_TYPES, name_of
from caffe2_frontend.ops.aten.positional import with_arguments

family = Family("aten")

TABLE: Final[Mapping[str, Conversion]] = merge((
    activations.family,
    conversion.family,
    elementwise.family,
    indexing.family,
    matrix.family,
    nn.family,
    reduction.family,
    shape.family,
    slicing.family,
))  # fmt: skip

# Arguments that choose an overload, or that the exporter adds; the inputs and the other arguments say as much.
_DESCRIPTIVE: Final = ("overload_name", "outputs", "type")


# Functions that onnxruntime's CPU kernels compute of other floats than double.
_NOT_OF_DOUBLE: Final = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cosh", "Elu", "Erf", "Gelu", "HardSigmoid",
    "HardSwish", "LeakyRelu", "Mish", "Selu", "Sinh", "Softplus", "Softsign", "Tan", "ThresholdedRelu",
})  # fmt: skip


class _TensorOperator(Op):
    """The operator; its operands are PyTorch's tensors, and the indices of those that its converter reads are kept."""

    def __init__(self, view: OpView, scope: Scope, location: Location, lowering: LoweringContext) -> None:
        super().__init__(view, scope, location, lowering)
        self.read: set[int] = set()

    def input(self, index: int) -> Value:
        """Operand ``index``."""
        self.read.add(index)
        value = super().input(index)
        if value.dtype is not None:
            require_dtype(self, value, TENSOR_TYPES, f"input {index} of an ATen operator")
        return value


def _expected(op: OpView, index: int) -> TensorInfo:
    """Describe an operand by the table entry of the ATen operator."""
    known = TABLE.get(op.args.text("operator", default="").removeprefix("aten::"))
    return TensorInfo() if known is None or known.expects is None else known.expects(op, index)


def _require_kernels(op: Op, nodes: Sequence[ir.Node]) -> None:
    for node in nodes:
        x = node.inputs[0] if node.op_type in _NOT_OF_DOUBLE else None
        if x is not None and x.dtype == ir.DataType.DOUBLE:
            op.unsupported(f"onnxruntime has no {node.op_type} of double", hint="cast the operand to float")


@family.converts("ATen", expects=_expected)
def aten(op: Op) -> Outputs:
    """ATen(tensors...; operator, ...) -> results: the ATen operator of that name."""
    name = name_of(op)
    conversion = TABLE.get(name)
    if conversion is None:
        close = difflib.get_close_matches(name, TABLE, n=3)
        similar = f"similar ones that have: {', '.join(close)}; " if close else ""
        op.unsupported(
            f"ATen operator {name!r} has no conversion",
            hint=f"{similar}replace it by other operators before the export, or choose outputs that do not need it: "
            "--output NAME, or outputs=[NAME]",
        )
    view = with_arguments(op, name)
    tensors = _TensorOperator(view, op.scope, op.location, op.lowering)
    start = len(op.scope.nodes)
    results = conversion.convert(tensors)
    _require_kernels(op, op.scope.nodes[start:])
    extra = [i for i in range(len(view.inputs)) if i not in tensors.read]
    if extra:
        op.unsupported(f"ATen operator {name!r} has no input {extra[0]} with these arguments", code="invalid-operands")
    view.args.ignore("operator", *_DESCRIPTIVE)
    op.args.ignore(*_DESCRIPTIVE)
    unread = view.args.unread
    if unread:
        op.unsupported(
            f"the conversion of ATen operator {name!r} does not support argument {', '.join(map(repr, unread))}",
            hint="remove the argument if the model does not need it",
            code="unknown-argument",
        )
    return results
