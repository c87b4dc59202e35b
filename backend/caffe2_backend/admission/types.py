"""Declared types of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_backend.admission.scopes import GraphScope
from caffe2_bridge.bounds import MAX_RANK
from caffe2_bridge.diagnostics import Diagnostic
from caffe2_frontend.interop.inference.value_types import nested_types

_DTYPES: Final = frozenset(map(int, ir.DataType))


def check_types(scope: GraphScope) -> Iterator[Diagnostic]:
    """Check that declared element types exist, inputs of the model have one, and no value has too many dims."""
    proto = scope.proto
    declared = [*proto.value_info]
    inputs: Sequence[onnx.ValueInfoProto] = ()
    if isinstance(proto, onnx.GraphProto):
        declared += [*proto.input, *proto.output]
        inputs = () if scope.parent else proto.input
    unknown = {info.name: kind for info in declared for kind in _element_types(info.type) if not is_dtype(kind)}
    for name, kind in unknown.items():
        yield Diagnostic("malformed-model", f"value {name!r} has unknown element type {kind}", scope.location)
    for info in declared:
        rank = max(map(_rank, nested_types(info.type)), default=0)
        if rank > MAX_RANK:
            reason = f"value {info.name!r} has {rank} dims; at most {MAX_RANK} are supported"
            yield Diagnostic("malformed-model", reason, scope.location)
    for info in inputs:
        if 0 in _element_types(info.type):
            yield Diagnostic("malformed-model", f"input {info.name!r} has no element type", scope.location)


def _element_types(kind: onnx.TypeProto) -> list[int]:
    parts = list(nested_types(kind))
    found = [part.tensor_type.elem_type for part in parts if part.HasField("tensor_type")]
    return found + [part.sparse_tensor_type.elem_type for part in parts if part.HasField("sparse_tensor_type")]


def _rank(kind: onnx.TypeProto) -> int:
    return max(len(kind.tensor_type.shape.dim), len(kind.sparse_tensor_type.shape.dim))


def is_dtype(number: int) -> bool:
    """Whether a number stands for an element type of ONNX, or for an undefined one."""
    return number in _DTYPES
