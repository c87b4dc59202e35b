"""Graph optimizations of onnxruntime that would change what a model computes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import onnx

from caffe2_backend.runtime.sessions.guard.outline import outline
from caffe2_frontend.interop.bodies import proto_bodies
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import MEASURES

_FUSION: Final = "DivMulFusion"
_MADE_BY: Final = re.compile(r"in node \(\S*/(\w+Fusion)/\)")
_FLOATS: Final = frozenset(
    {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
)


def unsafe_optimizers(model: bytes | str) -> tuple[str, ...]:
    """Return the optimizers that a session for a model, serialized or in a file, must do without.

    onnxruntime 1.32: DivMulFusion makes ``Div(y, d)`` of ``Mul(Div(1, d), y)``, of integers too, where 1 / d is rounded
    to an integer. The fusion is exact enough for floats, and other fusions depend on it.
    """
    found = outline(model, (b"Div",))
    return (_FUSION,) if found is not None and _divides_constants(found) else ()


def failed_optimizers(message: str) -> tuple[str, ...]:
    """Return the optimizers that may have made the node for which onnxruntime cannot load a model; none if none did.

    onnxruntime 1.32: LayerNormFusion joins what is computed in float of a half to one node of both types, which
    onnxruntime itself refuses in opset 17 and later.
    """
    found = _MADE_BY.search(message)
    return (found[1], *(f"{found[1]}L{level}" for level in (1, 2))) if found else ()


def _divides_constants(model: onnx.ModelProto) -> bool:
    """Whether a product may read a quotient of what is constant, or may be, and is not known to be a float."""
    search = _Search()
    for function in model.functions:
        search.visit(function.node)
    search.visit_graph(model.graph)
    return not search.quotients.isdisjoint(search.factors)


@dataclass
class _Search:
    """The values of a model.

    Attributes:
        varying: values that depend on the inputs.
        floats: constants that are floats.
        quotients: quotients of a value that is neither.
        factors: the operands of products.
    """

    varying: set[str] = field(default_factory=set)
    floats: set[str] = field(default_factory=set)
    quotients: set[str] = field(default_factory=set)
    factors: set[str] = field(default_factory=set)

    def visit_graph(self, graph: onnx.GraphProto) -> None:
        filled = {tensor.name for tensor in graph.initializer}
        self.floats.update(tensor.name for tensor in graph.initializer if tensor.data_type in _FLOATS)
        self.varying.update(value.name for value in graph.input if value.name not in filled)
        self.visit(graph.node)

    def visit(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Visit nodes in order, each after those that it reads."""
        for node in nodes:
            kind = standard_type(node)
            if kind == "Div" and node.input and not self._is_safe(node.input[0]):
                self.quotients.update(node.output)
            elif kind == "Mul":
                self.factors.update(node.input)
            elif kind == "Constant" and _is_float(node):
                self.floats.update(node.output)
            if kind not in MEASURES and not self.varying.isdisjoint(node.input):
                self.varying.update(node.output)
            for body in proto_bodies(node):
                self.visit_graph(body)

    def _is_safe(self, numerator: str) -> bool:
        return numerator in self.varying or numerator in self.floats


def _is_float(node: onnx.NodeProto) -> bool:
    return any(
        attr.name in {"value_float", "value_floats"} or (attr.name == "value" and attr.t.data_type in _FLOATS)
        for attr in node.attribute
    )
