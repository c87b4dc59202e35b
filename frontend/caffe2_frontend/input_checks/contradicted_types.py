"""Find element types that the caller gives to inputs and the operators that read them do not take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from caffe2_bridge.control import inner_operators
from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.training import is_gradient_operator
from caffe2_frontend.interop.input_hint import input_hint
from caffe2_frontend.interop.types import TensorInfo, example_dtype
from caffe2_frontend.ops import expectations
from caffe2_frontend.state import Export

_FLOATS: Final = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_INTEGERS: Final = frozenset({ir.DataType.INT32, ir.DataType.INT64, ir.DataType.INT16, ir.DataType.INT8})
_KINDS: Final = (_FLOATS, _INTEGERS)
# Real Caffe2 takes operands of other kinds than the usual one: it reads their shape alone, does not check the type, or
# computes with booleans too.
_UNCHECKED: Final = frozenset({
    "ATen", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BoxWithNMSLimit", "Col2Im", "GatherPadding", "ONNXWhile",
    "PairWiseLoss", "QuantDecode", "RMACRegions", "RemoveDataBlocks", "StringJoin", "WeightedSample",
})  # fmt: skip


def contradicted_types(state: Export) -> Iterator[Diagnostic]:
    """Yield an error for each described input that an operator reads as another kind of type: numbers as indices.

    Operators of which an error with a hint is reported already are left out, and gradients, which take what their
    forward operators took.
    """
    given = {name: info.dtype for name, info in state.options.described.items() if info.dtype is not None}
    if not given:
        return
    refused = {
        finding.location.outermost.index
        for finding in state.findings
        if finding.severity is Severity.ERROR and finding.hint
    }
    for index, op in state.numbered():
        for reader in (op, *inner_operators(op)) if index not in refused else ():
            for operand, name in enumerate(reader.inputs):
                expected = _expected(reader, operand) if name in given else None
                if expected is not None and _kind(expected) != _kind(given[name]):
                    yield _contradiction(state, Location(state.net.name, index, op.type, op.name), name, expected)
                    del given[name]


def _expected(op: OpView, operand: int) -> ir.DataType | None:
    expects = expectations().get(op.type)
    if expects is None or op.proto.domain or op.type in _UNCHECKED or is_gradient_operator(op.type):
        return None
    try:
        return expects(op, operand).dtype
    except ArgumentError:  # reported when the operator is converted
        return None


def _kind(dtype: ir.DataType | None) -> object:
    return next((kind for kind in _KINDS if dtype in kind), dtype)


def _contradiction(state: Export, reader: Location, name: str, expected: ir.DataType) -> Diagnostic:
    described = state.options.described[name]
    types = example_dtype(described), example_dtype(TensorInfo(expected))
    reason = f"input {name!r} is described as {types[0]}, and {reader.op_type} reads it as {types[1]}"
    hint = f"describe the input, such as {input_hint(name, TensorInfo(expected, described.shape))}"
    return Diagnostic("invalid-operands", reason, reader, hint=hint)
