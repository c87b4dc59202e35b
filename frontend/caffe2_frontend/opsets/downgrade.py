"""Conversion of a model to an earlier opset.

Most versions of an operator differ in element types that a model does not use, or in attributes that have their
default: such nodes stay as they are. The others have adapters (:mod:`.rules`), which write nodes of opset 20 that are
adapted in turn, until every node is one that the target's schema accepts.
"""

from __future__ import annotations

from typing import Final

import onnx
import onnx_ir as ir

from caffe2_frontend.interop.bodies import all_graphs, bodies
from caffe2_frontend.interop.cleanup.unused import remove_unused
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.rewriting.node_rewriter import InexpressibleError
from caffe2_frontend.opsets import along_axes, arithmetic, branches, images, indices, shapes
from caffe2_frontend.opsets.arithmetic import WIDER
from caffe2_frontend.opsets.rewriter import Rewriter
from caffe2_frontend.opsets.rules import Rules

__all__ = ["InexpressibleError", "downgrade"]

_RULES: Final = Rules(along_axes.rules, arithmetic.rules, branches.rules, images.rules, indices.rules, shapes.rules)

# Scan had a batch of its own before, and many operators broadcast otherwise.
OLDEST: Final = 9


def downgrade(model: ir.Model, target: int) -> None:
    """Convert a model of opset 20 or earlier to an earlier opset, in place.

    Args:
        model: the model, with element types and ranks on its values.
        target: the opset, 9 or later.

    Raises:
        InexpressibleError: the opset cannot express a node.
    """
    if target < OLDEST:
        raise InexpressibleError(f"models are converted to opset {OLDEST} and later")
    values = (value.name for graph in all_graphs(model.graph) for value in _values(graph))
    names = Names()
    for name in values:
        names.claim(name or "")
    _Downgrade(model.graph, target, names).graph(model.graph)
    remove_unused(model)  # what became attributes
    model.opset_imports[""] = target


def _values(graph: ir.Graph) -> list[ir.Value]:
    made = [value for node in graph for value in node.outputs]
    return [*graph.inputs, *graph.initializers.values(), *made]


class _Downgrade:
    def __init__(self, root: ir.Graph, target: int, names: Names) -> None:
        self._root = root
        self._target = target
        self._names = names

    def graph(self, graph: ir.Graph) -> None:
        """Adapt the nodes of a graph and of its bodies."""
        for node in list(graph):
            self._node(graph, node)

    def _node(self, graph: ir.Graph, node: ir.Node) -> None:
        for body in bodies(node):
            self.graph(body)
        if node.domain:
            return
        at = Rewriter(node, self._target, self._root, self._names)
        try:
            values = self._adapted(at)
        except InexpressibleError as error:
            raise InexpressibleError(f"{node.op_type} ({node.outputs[0].name!r}): {error.reason}") from None
        at.commit(values)
        for new in at.nodes:
            if new in at.finished:
                for body in bodies(new):
                    self.graph(body)
            else:
                self._node(graph, new)

    def _adapted(self, at: Rewriter) -> list[ir.Value] | None:
        """Return the values that replace the node's outputs; None where the node stays, perhaps changed."""
        for adapter in _RULES.find(at.node.op_type, self._target):
            result = adapter(at)
            if result is not None:
                return [result] if isinstance(result, ir.Value) else list(result)
        schema = self._schema(at)
        unknown = at.node.attributes.keys() - schema.attributes.keys()
        if unknown:
            at.refuse(f"the attribute {', '.join(sorted(unknown))} came later")
        count = len(at.node.inputs)
        if not schema.min_input <= count <= schema.max_input:
            at.refuse(f"it has {count} inputs")
        return self._widened(at, schema)

    def _schema(self, at: Rewriter) -> onnx.defs.OpSchema:
        try:
            return onnx.defs.get_schema(at.node.op_type, self._target, "")
        except onnx.defs.SchemaError:
            versions = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == at.node.op_type]
            at.refuse(f"the operator came with opset {min(versions)}" if versions else "the operator is unknown")

    def _widened(self, at: Rewriter, schema: onnx.defs.OpSchema) -> list[ir.Value] | None:
        """Widen operands whose element type came later, and narrow the node's results."""
        narrow = {value.dtype for value in at.node.inputs if value is not None and not _is_allowed(at, value, schema)}
        if not narrow:
            return None
        for dtype in narrow:
            if dtype not in WIDER:
                at.refuse(f"it has operands of type {'unknown' if dtype is None else dtype.name.lower()}")
        inputs = [
            at.cast(value, WIDER[value.dtype])
            if value is not None and value.dtype is not None and value.dtype in narrow
            else value
            for value in at.node.inputs
        ]
        if len(at.node.outputs) > 1:
            at.refuse("it has several outputs, and operands of a type that came later")
        (output,) = at.node.outputs
        dtype = WIDER[output.dtype] if output.dtype is not None and output.dtype in narrow else output.dtype
        like = ir.Value(type=None if dtype is None else ir.TensorType(dtype), shape=output.shape)
        attrs = {name: attr.value for name, attr in at.node.attributes.items()}
        wide = at.emit_old(at.node.op_type, *inputs, like=like, **attrs)
        return [wide if output.dtype is None else at.cast(wide, output.dtype)]


def _is_allowed(at: Rewriter, value: ir.Value, schema: onnx.defs.OpSchema) -> bool:
    """Whether the schema allows an operand's type; one of an unknown type, or of a sequence, is not judged."""
    if value.dtype is None or not isinstance(value.type, ir.TensorType):
        return True
    index = next(i for i, other in enumerate(at.node.inputs) if other is value)
    parameter = schema.inputs[min(index, len(schema.inputs) - 1)]
    return not parameter.types or f"tensor({value.dtype.name.lower()})" in parameter.types
