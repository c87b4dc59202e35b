"""Nodes have what native code takes for granted: see :mod:`caffe2_frontend.interop.native_limits`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import onnx

from caffe2_backend.admission.external_data import is_external
from caffe2_backend.admission.scopes import Scope
from caffe2_bridge.diagnostics import Diagnostic, RunError
from caffe2_frontend.interop.native_limits import DIVISORS, Dims, attribute_faults, key_of, operand_faults, reads_dims

_Tensors = Mapping[str, onnx.TensorProto]
_SCALAR: Final = 1  # element


@dataclass(frozen=True)
class InputGuard:
    """Refuses arrays for a model's inputs with which onnxruntime ends the process.

    Inputs are known to be operands where they are so themselves: what a model computes from others is not looked at.

    Attributes:
        nodes: the key and the operands of each node that has such an input.
    """

    nodes: Sequence[tuple[tuple[str, str], Sequence[str]]] = ()

    @classmethod
    def of(cls, graph: onnx.GraphProto) -> Self:
        """The guard of a graph that was checked."""
        inputs = {info.name for info in graph.input}
        keys = ((key_of(node.domain, node.op_type), node) for node in graph.node)
        found = ((key, tuple(node.input)) for key, node in keys if reads_dims(key) or key in DIVISORS)
        return cls(tuple((key, names) for key, names in found if not inputs.isdisjoint(names)))

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Raise RunError for arrays that a node does not take."""
        for key, names in self.nodes:
            given = [inputs.get(name) for name in names]
            reasons = [*operand_faults(key, [None if array is None else array.shape for array in given])]
            for index in DIVISORS.get(key, ()):
                array = given[index] if index < len(given) else None
                if array is not None and (array.size != 1 or not array.item() > 0):
                    reasons.append(f"input {index} must be one positive number")
            if reasons:
                raise RunError(f"{key[1]}: {reasons[0]}")


def check_native(scope: Scope) -> Iterator[Diagnostic]:
    """Report the nodes of a scope, whose payloads were checked, that end onnxruntime's process."""
    keys = [key_of(node.domain, node.op_type) for node in scope.nodes]
    reads = any(reads_dims(key) or key in DIVISORS for key in keys)
    tensors = _tensors(scope) if reads else {}
    dims = _declared(scope, tensors) if reads else {}
    for index, (node, key) in enumerate(zip(scope.nodes, keys, strict=True)):
        integers = {a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT}
        reasons = list(attribute_faults(key, integers))
        if reads_dims(key):
            reasons += operand_faults(key, [dims.get(name) for name in node.input])
        for operand in DIVISORS.get(key, ()):
            tensor = tensors.get(node.input[operand]) if operand < len(node.input) else None
            if tensor is not None and _is_divisor_of_nothing(tensor):
                reasons.append(f"input {operand} must be one positive number")
        for reason in reasons:
            yield Diagnostic("malformed-model", reason, scope.at(index))


def _tensors(scope: Scope) -> _Tensors:
    """The constants that a scope sees, by name, the innermost of a name."""
    found: dict[str, onnx.TensorProto] = {}
    at: Scope | None = scope
    while at is not None:
        if isinstance(at.proto, onnx.GraphProto):
            found = {tensor.name: tensor for tensor in at.proto.initializer} | found
        for node in at.nodes:
            if node.op_type == "Constant" and node.output and node.attribute and node.attribute[0].HasField("t"):
                found.setdefault(node.output[0], node.attribute[0].t)
        at = at.parent
    return found


def _declared(scope: Scope, tensors: _Tensors) -> Mapping[str, Dims]:
    """The dims that a scope knows of values, by name."""
    found: dict[str, Dims] = {}
    at: Scope | None = scope
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


def _is_divisor_of_nothing(tensor: onnx.TensorProto) -> bool:
    """Whether a constant is not one positive integer."""
    if is_external(tensor):
        return False
    if np.prod(tensor.dims, dtype=float) != _SCALAR:
        return True
    return tensor.data_type in _INTEGERS and bool(onnx.numpy_helper.to_array(tensor).reshape(-1)[0] <= 0)


_INTEGERS: Final = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
