"""Floats that are computed element by element between Int8 tensors: their channels may be last as in those.

Int8Dequantize -> NHWC2NCHW -> HardSwish -> NCHW2NHWC -> Int8Quantize => Int8Dequantize -> HardSwish -> Int8Quantize
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import onnx_ir as ir

from caffe2_backend.int8.quantized_values import known
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.operators import ARITHMETIC, FUNCTIONS

_ELEMENTWISE: Final = (FUNCTIONS | ARITHMETIC | {"Clip", "Max", "Min"}) - {"BitShift", "BitwiseNot", "Mod", "Not"}


def elementwise_nodes(x: ir.Value, images: Container[ir.Value]) -> list[ir.Node]:
    """Return the nodes that compute a value of images and single numbers alone; none if others do, or read between."""
    found: dict[ir.Node, None] = {}
    waiting = [x]
    while waiting:
        value = waiting.pop()
        if value in images or _is_number(value):
            continue
        node = value.producer()
        if node is None or not is_standard(node) or node.op_type not in _ELEMENTWISE or value.is_graph_output():
            return []
        if node not in found:
            found[node] = None
            waiting += [operand for operand in node.inputs if operand is not None]
    inside = all(
        use.node in found for node in found for value in node.outputs if value is not x for use in value.uses()
    )
    return list(found) if inside and len(x.uses()) == 1 else []


def channels_last(shape: ir.Shape | None) -> ir.Shape | None:
    """Return the dims of an image [N, C, H, W] as [N, H, W, C]."""
    return None if shape is None or len(shape) != 4 else ir.Shape([shape[axis] for axis in (0, 2, 3, 1)])


def _is_number(value: ir.Value) -> bool:
    array = known(value)
    return array is not None and array.size == 1
