"""The nodes of a model that stay in float32 in half precision."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
import onnx

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.bodies import proto_nodes
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import RANDOM, VIEWS

# Operators that stay in float32 although ONNX has them in float16. Sums over many elements and positions lose digits,
# and quantized groups would no longer be fused.
OPERATORS: Final = RANDOM.union({
    "CumSum", "DequantizeLinear", "Max", "Min", "MeanVarianceNormalization", "NonMaxSuppression", "QuantizeLinear",
    "RoiAlign", "TopK",
})  # fmt: skip
# Arithmetic that computes indices and sizes where its result is cast to integers: float16 has no odd integers above
# 2048. With constants beyond the range of float16 it takes floats apart, or masks and guards what it computes.
_ARITHMETIC: Final = frozenset({
    "Abs", "Add", "Cast", "Ceil", "Clip", "Div", "Exp", "Floor", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Pow",
    "Reciprocal", "Round", "Sqrt", "Sub", "Where",
})  # fmt: skip
# The largest number of float16, and the smallest positive one.
LARGEST: Final = float(np.finfo(np.float16).max)
SMALLEST: Final = 5.96e-08
_MOVES: Final = VIEWS | {"Expand", "Gather", "Slice", "Transpose"}
_FLOAT: Final = "tensor(float)"
_HALF: Final = "tensor(float16)"
# Operands that are float32 whatever the others are; the converter casts them.
_MIXED: Final = frozenset({"Resize"})
_INTEGERS: Final = frozenset({
    onnx.TensorProto.INT8, onnx.TensorProto.INT16, onnx.TensorProto.INT32, onnx.TensorProto.INT64,
    onnx.TensorProto.UINT8, onnx.TensorProto.UINT16, onnx.TensorProto.UINT32, onnx.TensorProto.UINT64,
})  # fmt: skip


def float32_nodes(model: onnx.ModelProto, beyond: Collection[str]) -> frozenset[str]:
    """Return the names of the nodes, at any depth, that stay in float32.

    ``beyond`` are the names of constants that have numbers beyond the range of float16.

    Those are: operators that ONNX does not define for float16, :data:`OPERATORS`, float operators of quantized groups,
    scattered elements that are combined (onnxruntime has no kernel), arithmetic whose result is cast to integers, and
    arithmetic around constants beyond the range of float16.
    """
    versions = {opset.domain: opset.version for opset in model.opset_import}
    nodes = list(proto_nodes(model.graph))
    kept = {node.name for node in nodes if _stays(node, versions)}
    return frozenset(kept | _quantized(nodes) | _of_indices(nodes) | _around(nodes, beyond))


def beyond_range(array: Array) -> int:
    """Return how many numbers of an array are finite and not 0, and too large or too small for float16."""
    size = np.abs(array)
    return int(np.count_nonzero(np.isfinite(size) & ((size > LARGEST) | ((size > 0) & (size < SMALLEST)))))


def _stays(node: onnx.NodeProto, versions: dict[str, int]) -> bool:
    if standard_type(node) in OPERATORS or any(_needs_float32(attr) for attr in node.attribute):
        return True
    if standard_type(node) in _MIXED:
        return False
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return True
    if any(operand.type_str == _FLOAT for operand in (*schema.inputs, *schema.outputs)):
        return True
    allowed = [set(constraint.allowed_type_strs) for constraint in schema.type_constraints]
    return any(_FLOAT in types and _HALF not in types for types in allowed)


def _needs_float32(attr: onnx.AttributeProto) -> bool:
    """Whether a node stays in float32 for an attribute: constants, which are not converted, and scattered sums."""
    return attr.name in ("value_float", "value_floats") or (attr.name == "reduction" and attr.s != b"none")


def _quantized(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the nodes that read what a DequantizeLinear writes."""
    nodes = list(nodes)
    reals = {node.output[0] for node in nodes if standard_type(node) == "DequantizeLinear"}
    return {node.name for node in nodes if reals.intersection(node.input)}


def _of_indices(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the arithmetic before a cast to integers, back to what is not arithmetic."""
    nodes = list(nodes)
    writers = {name: node for node in nodes for name in node.output}
    found: set[str] = set()
    pending = [node for node in nodes if standard_type(node) == "Cast" and _target(node) in _INTEGERS]
    while pending:
        node = pending.pop()
        if node.name in found:
            continue
        found.add(node.name)
        before = (writers.get(name) for name in node.input)
        pending += [writer for writer in before if writer is not None and standard_type(writer) in _ARITHMETIC]
    return found


def _around(nodes: Iterable[onnx.NodeProto], constants: Iterable[str]) -> set[str]:
    """Return the arithmetic that reads one of the constants, and the arithmetic before and after it."""
    arithmetic = [node for node in nodes if standard_type(node) in _ARITHMETIC | _MOVES]
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in arithmetic:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    writers = {name: node for node in arithmetic for name in node.output}
    found: set[str] = set()
    pending = [node for name in constants for node in readers.get(name, [])]
    while pending:
        node = pending.pop()
        if node.name not in found:
            found.add(node.name)
            pending += [writers[name] for name in node.input if name in writers]
            pending += [reader for name in node.output for reader in readers.get(name, [])]
    return found


def _target(node: onnx.NodeProto) -> int:
    return next((attr.i for attr in node.attribute if attr.name == "to"), onnx.TensorProto.UNDEFINED)
