"""Nodes have what native code takes for granted: see :mod:`caffe2_frontend.interop.native_limits`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import onnx

from caffe2_backend.admission.external_data import is_external
from caffe2_backend.admission.scopes import GraphScope
from caffe2_bridge.diagnostics import Diagnostic
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.native_limits import (
    Dims,
    attribute_faults,
    key_of,
    list_faults,
    needs_of,
    operand_faults,
    reads_dims,
)

_LISTS: Final = frozenset({onnx.AttributeProto.INTS, onnx.AttributeProto.STRINGS})
_Tensors = Mapping[str, onnx.TensorProto]


def check_native(scope: GraphScope) -> Iterator[Diagnostic]:
    """Report the nodes of a scope, whose payloads were checked, that end onnxruntime's process."""
    keys = [key_of(node) for node in scope.nodes]
    reads = any(map(reads_dims, keys))
    tensors = _tensors(scope) if reads else {}
    dims = _declared(scope, tensors) if reads else {}
    for index, (node, key, attributes) in enumerate(zip(scope.nodes, keys, scope.attributes, strict=True)):
        if not attributes and not reads_dims(key):
            continue
        integers = {a.name: a.i for a in attributes if a.type == onnx.AttributeProto.INT}
        floats = {a.name: a.f for a in attributes if a.type == onnx.AttributeProto.FLOAT}
        lists = {a.name: a.ints or a.strings for a in attributes if a.type in _LISTS}
        reasons = [*attribute_faults(key, integers, floats), *list_faults(key, lists)]
        if reads_dims(key):
            given = [bool(name) for name in node.input]
            operands = [dims.get(name) for name in node.input]
            reasons += operand_faults(key, integers, given, operands)
            for need in needs_of(key, given, [None] * len(given)):
                tensor = tensors.get(node.input[need.operand])
                if need.is_divisor and tensor is not None and _is_zero(tensor):
                    reasons.append(f"input {need.operand} {need.text}")
        for reason in reasons:
            yield Diagnostic("malformed-model", reason, scope.at(index))


def _tensors(scope: GraphScope) -> _Tensors:
    """Return the constants that a scope sees, by name, the innermost of a name."""
    found: dict[str, onnx.TensorProto] = {}
    at: GraphScope | None = scope
    while at is not None:
        if isinstance(at.proto, onnx.GraphProto):
            found = {tensor.name: tensor for tensor in at.proto.initializer} | found
        for node in at.nodes:
            if standard_type(node) == "Constant" and node.output and node.attribute and node.attribute[0].HasField("t"):
                found.setdefault(node.output[0], node.attribute[0].t)
        at = at.parent
    return found


def _declared(scope: GraphScope, tensors: _Tensors) -> Mapping[str, Dims]:
    """Return the dims that a scope knows of values, by name."""
    found: dict[str, Dims] = {}
    at: GraphScope | None = scope
    while at is not None:
        infos = [*at.proto.value_info]
        if isinstance(at.proto, onnx.GraphProto):
            infos += [*at.proto.input, *at.proto.output]
        found = _dims(infos) | found
        at = at.parent
    return found | {name: list(tensor.dims) for name, tensor in tensors.items()}


def _dims(infos: Iterable[onnx.ValueInfoProto]) -> dict[str, Dims]:
    return {
        info.name: [dim.dim_value if dim.HasField("dim_value") else None for dim in info.type.tensor_type.shape.dim]
        for info in infos
        if info.type.tensor_type.HasField("shape")
    }


def _is_zero(tensor: onnx.TensorProto) -> bool:
    """Whether a constant of one element is an integer that is not positive."""
    if is_external(tensor) or math.prod(tensor.dims) != 1:
        return False
    return tensor.data_type in _INTEGERS and bool(onnx.numpy_helper.to_array(tensor).reshape(-1)[0] <= 0)


_INTEGERS: Final = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
