"""Infer the types and symbolic shapes of the outputs of a node, as ONNX's shape inference does."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.interop.bodies import has_bodies
from caffe2_frontend.interop.inference.node_inference import ShapeMismatchError, infer_node
from caffe2_frontend.interop.operators import ARITHMETIC, BITWISE, COMPARISONS, FUNCTIONS, LOGIC

# The most frequent operators are inferred here: ONNX's inference costs a round trip through protobuf.
_SAME_AS_INPUT: Final = FUNCTIONS | {"Clip", "Identity", "LogSoftmax", "Softmax"}
_BROADCAST: Final = ARITHMETIC | LOGIC | BITWISE


def infer_outputs(node: ir.Node, opset: int) -> None:
    """Set the dtypes and shapes of the outputs of ``node`` as far as they follow from its inputs.

    Nodes with bodies are skipped: the caller sets their outputs from the bodies.

    Raises:
        ShapeMismatchError: the operands are incompatible.
    """
    first = node.inputs[0] if node.inputs else None
    if first is not None and node.domain == "":
        if node.op_type in _SAME_AS_INPUT:
            node.outputs[0].type, node.outputs[0].shape = first.type, first.shape
            return
        if node.op_type in _BROADCAST or node.op_type in COMPARISONS:
            shapes = [v.shape for v in node.inputs if v is not None]
            shape = _broadcast(node, shapes)
            node.outputs[0].shape = shape
            boolean = node.op_type in COMPARISONS
            node.outputs[0].type = ir.TensorType(ir.DataType.BOOL) if boolean else first.type
            _check_dtypes(node)
            return
    if not has_bodies(node):
        for value, described in zip(node.outputs, infer_node(node, opset), strict=False):
            if described is not None:
                value.type = ir.serde.deserialize_type_proto_for_type(described)
                value.shape = ir.serde.deserialize_type_proto_for_shape(described)


def _check_dtypes(node: ir.Node) -> None:
    a, b = (v.dtype if v is not None else None for v in node.inputs)
    if node.op_type != "Pow" and a is not None and b is not None and a != b:
        raise ShapeMismatchError(
            f"the operands of {node.op_type} must have one element type, not {a.name} and {b.name}"
        )


def _broadcast(node: ir.Node, shapes: list[ir.Shape | None]) -> ir.Shape | None:
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    if len(known) == 2 and len(known[1]) == 0:
        return known[0]
    rank = max(len(s) for s in known)
    dims: list[int | ir.SymbolicDim | None] = []
    for axis in range(-rank, 0):
        here = [s[axis] for s in known if len(s) >= -axis]
        fixed = {d for d in here if isinstance(d, int) and d != 1}
        if len(fixed) > 1:
            raise ShapeMismatchError(
                f"the operands of {node.op_type} must broadcast, but have shapes {' and '.join(str(s) for s in known)}"
            )
        symbols = {d for d in here if not isinstance(d, int)}
        if fixed:
            dims.append(fixed.pop())
        elif not symbols:
            dims.append(1)
        else:
            symbol = symbols.pop()
            dims.append(symbol if not symbols and symbol.value is not None else None)
    return ir.Shape(dims)
