"""ONNX's inference of the types and shapes of one node's outputs, remembered for nodes that are alike."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from functools import cache
from typing import Any, Final

import onnx
import onnx_ir as ir
from onnx import shape_inference

from caffe2_frontend.interop.operators import SIZED_BY_NUMBERS

logger = logging.getLogger(__name__)

# Shape tensors are small: larger constants do not affect shapes and are not passed to the inference.
_MAX_CONSTANT_ELEMENTS: Final = 64
_MAX_LETTERS: Final = 256  # of a name or a text

_INTEGERS: Final = frozenset([ir.DataType.INT64, ir.DataType.INT32])


class ShapeMismatchError(Exception):
    """The operands of a node are incompatible."""


@cache
def _schema(op_type: str, domain: str, opset: int) -> onnx.defs.OpSchema:
    return onnx.defs.get_schema(op_type, opset, domain)


# What ONNX's inference gave for nodes of one type, attributes, operand types and small constants: large graphs repeat
# the same few. Emptied when it is full, so that its size is bounded.
Described = tuple[onnx.TypeProto | None, ...]
_KNOWN: Final[dict[Hashable, Described]] = {}
_MAX_KNOWN: Final = 4096


def infer_node(node: ir.Node, opset: int) -> Described:
    """Return the types of a node's outputs, None for one that ONNX's inference does not know. They must not be changed.

    Raises:
        ShapeMismatchError: the operands are incompatible.
        onnx.defs.SchemaError: ONNX does not know the operator.
    """
    key = _key(node, opset)
    made = None if key is None else _KNOWN.get(key)
    if made is None:
        made = _inferred(node, opset)
        if key is not None:
            if len(_KNOWN) >= _MAX_KNOWN:
                _KNOWN.clear()
            _KNOWN[key] = made
    return made


def infer_if_possible(node: ir.Node, opset: int) -> Described:
    """Infer as :func:`infer_node`; nothing where inference fails, as it may for nodes of models that others made."""
    try:
        return infer_node(node, opset)
    except Exception:
        logger.debug("nothing inferred for %s", node.name, exc_info=True)
        return ()


def _key(node: ir.Node, opset: int) -> Hashable | None:
    """Return all that ONNX's inference of a node depends on; None where that is large."""
    parts: list[Any] = [node.op_type, node.domain, opset, len(node.outputs)]
    for attribute in node.attributes.values():
        value = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            if value.size > _MAX_CONSTANT_ELEMENTS:
                return None
            value = _contents(value)
        elif attribute.type not in _PLAIN or _is_large(value):
            return None
        parts.append((attribute.name, attribute.type, tuple(value) if isinstance(value, list) else value))
    for operand in node.inputs:
        if operand is None:
            parts.append(None)
            continue
        shape, constant = operand.shape, operand.const_value
        dims = None if shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in shape.dims)
        if dims is not None and _is_large(dims):
            return None
        known = constant is not None and _affects_shape(node, constant)
        parts.append((_type_key(operand.type), dims, _contents(constant) if known else None))
    return tuple(parts)


_PLAIN: Final = frozenset({
    ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT, ir.AttributeType.FLOATS,
    ir.AttributeType.STRING, ir.AttributeType.STRINGS,
})  # fmt: skip


def _is_large(value: Any) -> bool:
    """Whether a part of a key is a long text, or a list of many parts or of a long text."""
    if isinstance(value, str):
        return len(value) > _MAX_LETTERS
    if isinstance(value, (list, tuple)):
        return len(value) > _MAX_CONSTANT_ELEMENTS or any(isinstance(part, str) and _is_large(part) for part in value)
    return False


def _type_key(kind: ir.TypeProtocol | None) -> Hashable:
    return kind.dtype if isinstance(kind, ir.TensorType) else repr(kind)


def _contents(tensor: Any) -> Hashable:
    return tensor.dtype, tuple(tensor.shape.dims), tensor.tobytes()


def _inferred(node: ir.Node, opset: int) -> Described:
    """Return the types of the outputs that ONNX's inference knows; none where the type of an operand is unknown."""
    schema = _schema(node.op_type, node.domain, opset)
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for i, value in enumerate(node.inputs):
        if value is None:
            proto.input.append("")
            continue
        name = f"i{i}"
        proto.input.append(name)
        if value.type is not None:
            types[name] = _type_proto(value)
        if value.const_value is not None and _affects_shape(node, value.const_value):
            tensor = ir.serde.serialize_tensor(value.const_value)
            tensor.name = name
            data[name] = tensor
    proto.output.extend(f"o{i}" for i in range(len(node.outputs)))
    proto.attribute.extend(ir.serde.serialize_attribute(a) for a in node.attributes.values())
    if any(name and name not in types for name in proto.input):
        return ()
    try:
        result = shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=[onnx.OperatorSetIdProto(domain=node.domain, version=opset)]
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise ShapeMismatchError(f"{node.op_type}: {str(error).strip()}") from None
    return tuple(result.get(f"o{i}") for i in range(len(node.outputs)))


def _affects_shape(node: ir.Node, constant: ir.TensorProtocol) -> bool:
    """Return whether ONNX's inference may depend on the contents of a constant."""
    if constant.size > _MAX_CONSTANT_ELEMENTS:
        return False
    return constant.dtype in _INTEGERS or node.op_type in SIZED_BY_NUMBERS


def _type_proto(value: ir.Value) -> onnx.TypeProto:
    proto = onnx.TypeProto()
    if isinstance(value.type, ir.TensorType):
        tensor = proto.tensor_type
        tensor.elem_type = int(value.type.dtype)
        if value.shape is not None:
            tensor.shape.SetInParent()
            for dim in value.shape:
                slot = tensor.shape.dim.add()
                if isinstance(dim, int):
                    if dim >= 0:  # a negative one ends the process in the inference of Slice
                        slot.dim_value = dim
                elif dim.value is not None:
                    slot.dim_param = dim.value
        return proto
    assert value.type is not None
    ir.serde.serialize_type_into(proto, value.type)
    return proto
