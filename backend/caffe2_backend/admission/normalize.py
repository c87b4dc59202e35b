"""Rewrites of what onnx_ir does not represent: sparse tensors, types that hold maps, dims of size -1, shardings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from caffe2_backend.admission.external_data import is_external
from caffe2_backend.admission.scopes import GraphScope
from caffe2_bridge.bounds import current_limits, hint_of
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.inference.value_types import holds_map, negative_dims, nested_types


class _NotDenseError(Exception):
    """A sparse tensor cannot be stored as a dense one. The message is the reason."""

    def __init__(self, reason: str, hint: str = "store it as a dense tensor") -> None:
        super().__init__(reason)
        self.hint = hint


def needs_rewrites(scopes: Sequence[GraphScope]) -> bool:
    """Whether :func:`rewrite` would change the graphs."""
    return any(
        _sparse_constants(scope)
        or any(node.device_configurations for node in scope.nodes)
        or (isinstance(scope.proto, onnx.GraphProto) and scope.proto.sparse_initializer)
        or any(negative_dims(info.type for info in _infos(scope)))
        or any(holds_map(info.type) or _lacks_element_type(info.type) for info in _infos(scope))
        for scope in scopes
    )


def rewrite(scopes: Sequence[GraphScope]) -> list[Diagnostic]:
    """Rewrite the graphs in place, and return the errors.

    Sparse initializers and constants become dense, dims of a negative size unknown. Outputs and intermediate values
    that hold maps, or are of an undefined element type, lose their declared type, which follows from the operator that
    makes them. Nodes lose what they say of several devices: it names values that passes replace, and devices are
    assigned anew.
    """
    found: list[Diagnostic] = []
    for scope in scopes:
        found += _densify(scope)
        for node in scope.nodes:
            node.ClearField("device_configurations")
        for dim in negative_dims(info.type for info in _infos(scope)):
            dim.ClearField("dim_value")
        for info in _infos(scope):
            if holds_map(info.type) or _lacks_element_type(info.type):
                info.ClearField("type")
        if isinstance(scope.proto, onnx.GraphProto):
            for info in scope.proto.input:
                if not info.HasField("type") and scope.parent is None:
                    found.append(_fault(f"input {info.name!r} must not be a map", scope.location, "dtype"))
    return found


def _infos(scope: GraphScope) -> Iterator[onnx.ValueInfoProto]:
    yield from scope.proto.value_info
    if isinstance(scope.proto, onnx.GraphProto):
        yield from scope.proto.input
        yield from scope.proto.output


def _lacks_element_type(kind: onnx.TypeProto) -> bool:
    return any(part.HasField("tensor_type") and not part.tensor_type.elem_type for part in nested_types(kind))


def _sparse_constants(scope: GraphScope) -> list[tuple[int, onnx.AttributeProto]]:
    return [
        (index, attribute)
        for index, node in enumerate(scope.nodes)
        if standard_type(node) == "Constant"
        for attribute in node.attribute
        if attribute.name == "sparse_value" and attribute.HasField("sparse_tensor")
    ]


def _densify(scope: GraphScope) -> Iterator[Diagnostic]:
    for index, attribute in _sparse_constants(scope):
        try:
            dense = _dense(attribute.sparse_tensor)
        except _NotDenseError as error:
            yield _fault(f"attribute {attribute.name!r} {error}", scope.at(index), hint=error.hint)
            continue
        attribute.CopyFrom(onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR, t=dense))
    if isinstance(scope.proto, onnx.GraphProto):
        for sparse in scope.proto.sparse_initializer:
            try:
                scope.proto.initializer.append(_dense(sparse))
            except _NotDenseError as error:
                yield _fault(f"initializer {sparse.values.name!r} {error}", scope.location, hint=error.hint)
        del scope.proto.sparse_initializer[:]


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Return the dense tensor of a sparse one, whose indices are linear, or one row for each element."""
    if is_external(sparse.values) or is_external(sparse.indices):
        raise _NotDenseError("must not be sparse with external data")
    dims = tuple(sparse.dims)
    size = math.ceil(math.prod(dims) * ir.DataType(sparse.values.data_type).itemsize)
    if any(dim < 0 for dim in dims):
        raise _NotDenseError(f"must not be sparse of shape {list(dims)}")
    if size > current_limits().constant_bytes:
        reason = f"must not be sparse of shape {list(dims)}: {size:,} bytes"
        raise _NotDenseError(reason, hint_of("constant_bytes", size))
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(dims, values.dtype)
    try:
        dense[np.unravel_index(indices, dims) if indices.ndim == 1 else tuple(indices.T)] = values
    except (IndexError, ValueError):
        raise _NotDenseError(f"has sparse indices that do not fit its shape {list(dims)}") from None
    return numpy_helper.from_array(dense, sparse.values.name)


def _fault(reason: str, location: Location, code: str = "sparse-tensor", hint: str = "") -> Diagnostic:
    return Diagnostic(code, reason, location, hint=hint)
