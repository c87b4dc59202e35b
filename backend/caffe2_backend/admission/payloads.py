"""The values of tensors in a model: as many as the shape asks for, in the field that the element type asks for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_backend.admission.external_data import is_external
from caffe2_backend.admission.scopes import GraphScope
from caffe2_bridge.bounds import MAX_RANK
from caffe2_bridge.diagnostics import Diagnostic

# The fields that hold values of a type each: the types, and how many elements of the field a value takes.
_FIELDS: Final[Mapping[str, Mapping[ir.DataType, int]]] = {
    "float_data": {ir.DataType.FLOAT: 1, ir.DataType.COMPLEX64: 2},
    "double_data": {ir.DataType.DOUBLE: 1, ir.DataType.COMPLEX128: 2},
    "int64_data": {ir.DataType.INT64: 1},
    "uint64_data": {ir.DataType.UINT64: 1, ir.DataType.UINT32: 1},
    "string_data": {ir.DataType.STRING: 1},
}
_ELSEWHERE: Final = frozenset(dtype for types in _FIELDS.values() for dtype in types)
_PACKED_BITS: Final = frozenset({2, 4})  # several values lie in one element of int32_data


def check_payloads(scope: GraphScope) -> Iterator[Diagnostic]:
    """Report the tensors of a scope whose values do not fit their shape and element type, which is known."""
    for tensor in scope.tensors:
        rank = len(tensor.proto.dims)
        if rank > MAX_RANK:
            reason = f"{tensor.what} has {rank} dims; at most {MAX_RANK} are supported"
            yield Diagnostic("malformed-model", reason, scope.at(tensor.node))
        elif not is_external(tensor.proto):
            for code, reason, hint in _faults(tensor.proto):
                yield Diagnostic(code, f"{tensor.what} {reason}", scope.at(tensor.node), hint=hint)


def _faults(tensor: onnx.TensorProto) -> Iterator[tuple[str, str, str]]:
    if tensor.HasField("segment"):
        yield "malformed-model", "is a segment of a tensor, which no runtime reads", ""
        return
    dtype = ir.DataType(tensor.data_type)
    size = math.prod(tensor.dims)
    if tensor.HasField("raw_data"):
        if dtype == ir.DataType.STRING:
            yield "malformed-model", "has strings as raw data", ""
            return
        found, expected, unit = len(tensor.raw_data), -(-size * dtype.bitwidth // 8), "bytes"
    else:
        fields = [name for name in (*_FIELDS, "int32_data") if len(getattr(tensor, name))]
        if not fields:
            if size:
                yield "no-values", "has no values", "save the model with its weights"
            return
        if len(fields) > 1:
            yield "malformed-model", f"has values in {' and '.join(fields)}", ""
            return
        (field,) = fields
        elements = _elements(field, dtype, size)
        if elements is None:
            yield "malformed-model", f"of type {dtype.name} must not have its values in {field}", ""
            return
        found, expected, unit = len(getattr(tensor, field)), elements, f"elements in {field}"
    if found != expected:
        shape = list(tensor.dims)
        yield "malformed-model", f"of type {dtype.name} and shape {shape} has {found} {unit}, not {expected}", ""


def _elements(field: str, dtype: ir.DataType, size: int) -> int | None:
    """Return how many elements of a field ``size`` values take; None if the field does not hold the type."""
    if field != "int32_data":
        factor = _FIELDS[field].get(dtype)
        return None if factor is None else factor * size
    if dtype in _ELSEWHERE:
        return None
    return -(-size * dtype.bitwidth // 8) if dtype.bitwidth in _PACKED_BITS else size
