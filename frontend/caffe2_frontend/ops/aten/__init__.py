"""Converters of the operator ATen, by the ATen operator that its argument ``operator`` names.

PyTorch's exporters write it for what has no ONNX operator. The specification is Caffe2's `ATen` operator of torch
1.9.1: inputs are the tensors of the ATen schema, and arguments all others, under their names in the schema; trailing
arguments that have their defaults may be left out. Operators that it lacks (the `_like` fills, `slice` with an end)
are those of PyTorch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.registry import merge
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.context import LoweringContext
from caffe2_frontend.lowering.family import Conversion, Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.lowering.unsupported_ops import CHOOSE_OUTPUTS
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
from caffe2_frontend.ops.aten.kernels import missing, stand_in
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


class _TensorOperator(Op):
    """The operator; its operands are PyTorch's tensors, and the indices of those that its converter reads are kept."""

    def __init__(self, view: OpView, scope: Scope, location: Location, lowering: LoweringContext) -> None:
        super().__init__(view, scope, location, lowering)
        self.read: set[int] = set()

    def input(self, index: int) -> Value:
        """Return operand ``index``."""
        self.read.add(index)
        value = super().input(index)
        if value.dtype is not None:
            require_dtype(self, value, TENSOR_TYPES, f"input {index} of an ATen operator")
        return value

    def emit(self, op_type: str, *inputs: Value | None, **options: Any) -> Any:
        """Emit a node, of other element types where onnxruntime has no kernel for those of its operands."""
        dtype = next((value.dtype for value in _data(op_type, inputs)), None)
        if kind := missing(op_type, dtype):
            self.unsupported(f"onnxruntime has no {op_type} of {kind}", hint="cast the operand to float")
        other = stand_in(op_type, dtype, options)
        if dtype is None or other is None:
            return super().emit(op_type, *inputs, **options)
        made = super().emit(
            op_type, *(cast(self, v, other) if v is not None and v.dtype == dtype else v for v in inputs), **options
        )
        return cast(self, made, dtype) if made.dtype == other else made


def _data(op_type: str, inputs: Sequence[Value | None]) -> Iterator[Value]:
    """Return the operands that have the element type of the kernel, all but a condition."""
    return (value for value in inputs[op_type == "Where" :] if value is not None)


def _expected(op: OpView, index: int) -> TensorInfo:
    """Describe an operand by the table entry of the ATen operator."""
    known = TABLE.get(op.args.text("operator", default="").removeprefix("aten::"))
    return TensorInfo() if known is None or known.expects is None else known.expects(op, index)


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
            hint=f"{similar}replace it by other operators before the export, or {CHOOSE_OUTPUTS}",
        )
    view = with_arguments(op, name)
    tensors = _TensorOperator(view, op.scope, op.location, op.lowering)
    results = conversion.convert(tensors)
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
