"""What an adapter to an earlier opset sees: one node, its operands, and the means to replace it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.rewriting.node_emitter import add_constant
from caffe2_frontend.interop.rewriting.node_rewriter import NodeRewriter
from caffe2_frontend.interop.types import BOOL, INT64
from caffe2_frontend.lowering.inference import infer_outputs

# The opset in which adapters write nodes; nodes that are younger than the target are adapted in turn.
MODERN: Final = 20


class Rewriter(NodeRewriter):
    """One node under adaptation.

    Nodes of :meth:`emit` are of opset 20 and are adapted afterwards; nodes of :meth:`emit_old` are in the form of the
    target already. Constants are initializers of the main graph, which all bodies see.
    """

    def __init__(self, node: ir.Node, target: int, root: ir.Graph, names: Names) -> None:
        super().__init__(node, names)
        self.target = target
        self.finished: set[ir.Node] = set()
        self._root = root

    def const(self, array: Any, dtype: Any = None) -> ir.Value:
        """Return a constant: an initializer of the main graph. ``dtype`` is NumPy's or ONNX's."""
        return add_constant(self._root, self._names.fresh("const"), array, dtype)

    def emit_old(self, op_type: str, *inputs: ir.Value | None, like: ir.Value, **attributes: Any) -> ir.Value:
        """Emit a node in the form of the target, whose output has the type and shape of ``like``."""
        value = self.emit_like(like, op_type, *inputs, **attributes)
        self.finished.add(self.nodes[-1])
        return value

    def append(self, graph: ir.Graph, make: Callable[[], ir.Value]) -> ir.Value:
        """Append what ``make`` emits to a body of the node, in the form of the target, and return its value."""
        around, self.nodes = self.nodes, []
        value = make()
        graph.extend(self.nodes)
        self.nodes = around
        return value

    def loop(self, count: ir.Value, start: ir.Value, step: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """Apply ``step`` to the iteration (int64, a scalar) and the last value, ``count`` times from ``start`` on."""
        owner = self.node.op_type
        number = ir.Value(name=self._names.fresh(f"{owner}/i"), type=ir.TensorType(INT64), shape=ir.Shape([]))
        going = ir.Value(name=self._names.fresh(f"{owner}/going"), type=ir.TensorType(BOOL), shape=ir.Shape([]))
        value = ir.Value(name=self._names.fresh(f"{owner}/value"), type=start.type, shape=start.shape)

        def make() -> list[ir.Value]:
            result = step(number, value)
            result.type, result.shape = start.type, start.shape
            return [self.emit("Identity", going), result]

        body = self.body([number, going, value], make, f"{owner}_loop")
        always = self.const(True, BOOL)  # noqa: FBT003 - a tensor's element
        return self.emit_old("Loop", count, always, start, like=start, body=body)

    def element(self, vector: ir.Value, index: int) -> ir.Value:
        """Return an element of a vector, as a scalar."""
        return self.emit("Gather", vector, self.const(index, np.int64), axis=0)

    def part(self, vector: ir.Value, start: int, end: int) -> ir.Value:
        """Return the elements of a vector from ``start`` up to ``end``."""
        return self.emit("Slice", vector, *(self.const([number], np.int64) for number in (start, end, 0)))

    def from_front(self, index: ir.Value, size: ir.Value) -> ir.Value:
        """Count negative indices (int64) into a dim from the front."""
        is_negative = self.emit("Less", index, self.const(0, np.int64))
        return self.emit("Where", is_negative, self.emit("Add", index, size), index)

    def _infer(self, node: ir.Node) -> None:
        infer_outputs(node, MODERN)
