"""Constants of the rank of the operands that they are broadcast to.

onnxruntime broadcasts an operand of lower rank to one of shape [..., 1] element by element: to add a bias [1] to 32,000
logits [T, N, 1] takes 0.34 ms, and a bias [1, 1, 1] 0.01 ms; to mask them takes 0.50 or 0.05 ms.
"""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.shapes import reshape
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.interop.operators import BROADCASTING
from caffe2_frontend.lowering.op import Op, Value


def align_constants(op: Op, body: Body) -> None:
    """Give constants of one element the rank of the other operands, where these end in a dim of one."""
    aligned: dict[tuple[Value, int], Value] = {}
    for node in body.op.scope.nodes:
        rank = _rank(node)
        for index, value in enumerate(node.inputs):
            if value is not None and rank > 1 and _is_element(value) and op.rank(value) < rank:
                key = value, rank
                if key not in aligned:
                    aligned[key] = reshape(op, value, [1] * rank)
                node.replace_input_with(index, aligned[key])


def _rank(node: ir.Node) -> int:
    """Return the rank of the result of an elementwise node whose operands end in a dim of one; 0 for other nodes."""
    shapes = [value.shape for value in node.inputs if value is not None]
    if node.op_type not in BROADCASTING or node.domain:
        return 0
    if not all(shape is not None and (len(shape) == 0 or shape[-1] == 1) for shape in shapes):
        return 0
    return max((len(shape) for shape in shapes if shape is not None), default=0)


def _is_element(value: Value) -> bool:
    shape = value.shape
    return value.const_value is not None and shape is not None and all(dim == 1 for dim in shape)
