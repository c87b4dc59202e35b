"""Fold constants: replace nodes whose operands are all constants by constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.state import Export

# The results of these are no larger than their operands: they may be stored.
_FOLDABLE: Final = frozenset({
    "Add", "Cast", "Concat", "Flatten", "Gather", "Identity", "Mul", "Neg", "Reshape", "Shape", "Slice", "Split",
    "Squeeze", "Sub", "Transpose", "Unsqueeze",
})  # fmt: skip


class FoldConstants(InPlacePass[Export]):
    """Replace nodes whose operands are all constants by constants, computed when the model is written.

    Weights that are transposed, sliced or reordered for ONNX are thus never in memory all at once.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"folded"})

    def __call__(self, state: Export) -> None:
        """Fold the constants of the model's graph."""
        graph = state.graph
        results = set(graph.outputs)
        for node in list(graph):
            if not _is_foldable(node) or results.intersection(node.outputs):
                continue
            for value, tensor in zip(node.outputs, _tensors(node, state.working_opset), strict=True):
                constant = ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=tensor)
                tensor.name = value.name
                ir.convenience.replace_all_uses_with(value, constant)
                graph.register_initializer(constant)
            graph.remove(node, safe=True)


def _is_foldable(node: ir.Node) -> bool:
    return (
        node.domain == ""
        and node.op_type in _FOLDABLE
        and all(value is not None and value.const_value is not None for value in node.inputs)
        and all(
            value.dtype is not None and value.shape is not None and value.shape.is_static() for value in node.outputs
        )
    )


def _tensors(node: ir.Node, opset: int) -> list[ir.LazyTensor]:
    """The outputs as lazy tensors that run the node when they are read."""
    inputs = [value.const_value for value in node.inputs if value is not None and value.const_value is not None]
    proto = ir.serde.serialize_node(node)
    names = [str(value.name) for value in node.inputs if value is not None]

    def run(index: int) -> Callable[[], ir.TensorProtocol]:
        def compute() -> ir.TensorProtocol:
            evaluator = ReferenceEvaluator(proto, opsets={"": opset})
            feed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
            results = list(evaluator.run(None, feed))
            return ir.tensor(np.ascontiguousarray(results[index]))

        return compute

    return [
        ir.LazyTensor(run(i), value.dtype, ir.Shape(value.shape.numpy()))  # type: ignore[union-attr, arg-type] # static: _is_foldable
        for i, value in enumerate(node.outputs)
    ]
