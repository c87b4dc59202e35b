"""Nodes that move or compare quantized bytes, between DequantizeLinear and QuantizeLinear of the same scale.

QuantizeLinear -> MaxPool => QuantizeLinear -> DequantizeLinear -> MaxPool -> QuantizeLinear
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx_ir as ir

from caffe2_backend.int8.quantized_values import is_quantize
from caffe2_frontend.interop.domains import is_standard

# Of these Caffe2 has an Int8 operator, whose operand is quantized as the result is.
_KEEP_SCALE: Final = frozenset({"Flatten", "MaxPool", "Reshape"})


def spread_quantization(graph: ir.Graph, fresh: Callable[[str], str]) -> None:
    """Put each such node that reads the bytes of a QuantizeLinear between two that convert; ``fresh`` makes names."""
    for node in list(graph):
        first = node.inputs[0] if node.inputs else None
        quantize = None if first is None else first.producer()
        if first is None or quantize is None or not is_quantize(quantize) or len(node.outputs) != 1:
            continue
        if node.op_type not in _KEEP_SCALE or not is_standard(node):
            continue
        how = list(quantize.inputs)[1:]
        reals = ir.Node("", "DequantizeLinear", [first, *how], num_outputs=1)
        (real,), output = reals.outputs, node.outputs[0]
        real.name, real.type, real.shape = fresh(f"{first.name}/real"), ir.TensorType(ir.DataType.FLOAT), first.shape
        node.replace_input_with(0, real)
        graph.insert_before(node, reals)
        again = ir.Node("", "QuantizeLinear", [output, *how], num_outputs=1)
        again.outputs[0].type, again.outputs[0].shape = output.type, output.shape
        again.outputs[0].name = output.name
        ir.convenience.replace_all_uses_with(output, again.outputs[0], replace_graph_outputs=True)
        again.replace_input_with(0, output)
        output.name, output.type = fresh(f"{output.name}/real"), real.type
        graph.insert_after(node, again)
