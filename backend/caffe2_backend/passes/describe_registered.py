"""Types of the results of nodes that have a registered importer, which ONNX's inference does not know."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.lowering.family import full_type
from caffe2_backend.ops import INFERENCES
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.types import TensorInfo


def describe_registered(model: ir.Model) -> bool:
    """Set the types and dims of results that follow from those of operands now. Return whether there were any.

    Raises ConversionError where the function that a user registered for it fails.
    """
    found = False
    for node in all_nodes(model.graph) if INFERENCES else ():
        infer = INFERENCES.get(full_type(node))
        operands = [TensorInfo() if value is None else _info(value) for value in node.inputs]
        if infer is None or any(value and not info.dtype for value, info in zip(node.inputs, operands, strict=True)):
            continue
        try:
            results = list(infer(operands))
        except BridgeError:
            raise
        except Exception as error:
            here = Location(model.graph.name or "graph", None, node.op_type, node.name or "")
            reason = f"the registered inference failed: {type(error).__name__}: {error}"
            raise ConversionError([Diagnostic("plugin", reason, here)]) from error
        for value, info in zip(node.outputs, results, strict=False):
            if value.type is None and info.dtype is not None:
                value.type, found = ir.TensorType(info.dtype), True
                value.shape = None if info.shape is None else ir.Shape(info.shape)
    return found


def _info(value: ir.Value) -> TensorInfo:
    shape = None if value.shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    return TensorInfo(value.dtype if isinstance(value.type, ir.TensorType) else None, shape)
