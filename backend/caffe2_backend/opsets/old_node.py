"""One node of an early opset, and the means to replace it by nodes of a later one."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.rewriting.node_rewriter import NodeRewriter

Ranks = Mapping[str, int]
"""The ranks of values, by name."""


class RanksNeededError(Exception):
    """The conversion of a node depends on a rank, and ranks are not inferred yet."""


class OldNode(NodeRewriter):
    """One node under conversion. Emitted nodes have its name, too: diagnostics are at its place."""

    def __init__(self, node: ir.Node, names: Names, ranks: Ranks | None) -> None:
        super().__init__(node, names)
        self._ranks = ranks
        self._before = dict(node.attributes), tuple(node.inputs)

    def rank(self, value: ir.Value) -> int:
        """Return the number of dims of a value. Raises RanksNeededError before ranks are inferred."""
        if value.shape is None and self._ranks is None:
            raise RanksNeededError
        known = (self._ranks or {}).get(str(value.name))
        return super().rank(value) if value.shape is not None or known is None else known

    def only_output(self) -> None:
        """Refuse the node where it has more outputs than the first."""
        if any(value.name for value in self.node.outputs[1:]):
            self.refuse("only the first output can be computed")

    def restore(self) -> None:
        """Give the node the attributes and operands that it had."""
        attributes, inputs = self._before
        self.node.attributes.clear()
        self.node.attributes.update(attributes)
        self.node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            self.node.replace_input_with(index, value)

    def _name(self, node: ir.Node) -> None:
        super()._name(node)
        node.name = self.node.name
