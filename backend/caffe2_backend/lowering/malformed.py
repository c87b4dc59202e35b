"""Tell a malformed node, on which a converter failed, from a fault of the converter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_backend.state import WORKING_OPSET
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.diagnostics.internal import internal_error
from caffe2_frontend.interop.files.strip_weights import SMALL_TENSOR_BYTES
from caffe2_frontend.interop.inference.shape_inference import infer_shapes

_IR_VERSION: Final = 10


def failure_of(node: ir.Node, error: Exception, here: Location) -> Diagnostic:
    """Return the diagnostic of an exception that escaped the converter of a node.

    The converters rely on what ONNX's shape inference requires of ranks, sizes and attributes. It is asked only now,
    since it refuses nodes that runtimes compute. Raises ``error`` where faults surface (see ``internal_error``).
    """
    reason = _refusal(node)
    if reason:
        return Diagnostic("malformed-model", f"ONNX refuses the node: {reason}", here)
    return internal_error(error, here)


def _refusal(node: ir.Node) -> str:
    """Return why ONNX's strict shape inference refuses a node, as far as its operands are known; empty if not."""
    if any(attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attr in node.attributes.values()):
        return ""
    graph = onnx.GraphProto(name="node")
    try:
        refused = next(_refused_types(node), "")
        if refused:
            return refused
        graph.node.append(ir.to_proto(node))
        for value in dict.fromkeys(value for value in node.inputs if value is not None):
            tensor = value.const_value
            if tensor is not None and tensor.nbytes <= SMALL_TENSOR_BYTES:
                proto = ir.serde.serialize_tensor(tensor)
                proto.name = str(value.name)
                graph.initializer.append(proto)
            graph.input.append(ir.to_proto(value))
        graph.output.extend(ir.to_proto(value) for value in node.outputs if value.name and value.type is not None)
        opset = onnx.OperatorSetIdProto(domain=node.domain, version=node.version or WORKING_OPSET)
        model = onnx.ModelProto(ir_version=_IR_VERSION, graph=graph, opset_import=[opset])
        infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        return str(error).strip().rpartition("] ")[2]
    except Exception:  # noqa: BLE001 - the node is odd enough for a converter to fail: it may fail here too
        return ""
    return ""


def _refused_types(node: ir.Node) -> Iterator[str]:
    """Yield the operands of types that an operator does not take, alone or together: shape inference does not check."""
    schema = onnx.defs.get_schema(node.op_type, node.version or WORKING_OPSET, node.domain)
    bound: dict[str, str] = {}  # what type parameters stand for
    for index, value in enumerate(node.inputs):
        if value is None or not isinstance(value.type, ir.TensorType) or not schema.inputs:
            continue
        kind, formal = value.type.dtype.name.lower(), schema.inputs[min(index, len(schema.inputs) - 1)]  # or variadic
        if f"tensor({kind})" not in formal.types:
            yield f"input {index} is {kind}, which {node.op_type} does not take"
        other = bound.setdefault(formal.type_str, kind) if formal.is_homogeneous else kind
        if other != kind:
            yield f"input {index} is {kind}, and must be {other}, as another input is"
