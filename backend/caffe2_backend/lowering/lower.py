"""Lowering: the nodes of an ONNX graph, in order, through their converters into Caffe2 operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.lowering.carry import carried, carried_constant, describe_net
from caffe2_backend.lowering.family import Converter
from caffe2_backend.lowering.op import (
    CAFFE2_TYPES,
    Emitted,
    Op,
    Outputs,
    TooNarrowError,
)
from caffe2_backend.restore.operators import is_restored, restored_operators
from caffe2_backend.state import Foreign
from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.netdef.parameters import Array, Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operator_base import RefusedBodyError, UnsupportedError

# Attributes that name a node's origin or that older exporters left behind; they say nothing of what it computes.
_MEANINGLESS: Final = frozenset({"consumed_inputs"})


@dataclass
class Lowering:
    """The state of one lowering: the converters, the names in use, and what was made and found so far."""

    converters: Mapping[str, Converter]
    names: Names
    foreign: Foreign
    parameters: dict[str, Parameter] = field(default_factory=dict)
    findings: list[Diagnostic] = field(default_factory=list)

    def net(self, graph: ir.Graph, net: NetDef, place: Location) -> None:
        """Lower the nodes of ``graph`` into ``net``; ``place`` is the graph's own place."""
        for index, node in enumerate(graph):
            here = Location(place.net, index, node.op_type, node.name or "", place.path)
            net.op.extend(self.node(node, here))

    def node(self, node: ir.Node, here: Location) -> list[OperatorDef]:
        """The operators that a node becomes; none where it is refused, which is a finding."""
        if is_restored(node):
            return restored_operators(node)
        try:
            made = self._converted(node, here)
        except UnsupportedError as error:
            if self.foreign == "error":
                if not isinstance(error, RefusedBodyError):
                    self.report(error.code, error.reason, here, error.hint)
                    self._report_unknown_inside(node, here)
                return []
            return [carried(node, lambda graph, name: self._body(graph, here.enter(name)))]
        for name, array in made.constants.items():
            self.parameters[name] = constant_parameter(name, array)
        return made.ops

    def _converted(self, node: ir.Node, here: Location) -> Emitted:
        converter = self.converter(node)
        if converter is None:
            what = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            reason = f"operator {what!r} has no conversion to Caffe2 operators"
            raise UnsupportedError(reason, "foreign='carry' takes it along as it is", "unknown-operator")
        if self.foreign == "carry" and not _is_known(node):
            raise UnsupportedError("the type or the rank of an operand is unknown")
        op, outputs = self._called(converter, node, here)
        unread = node.attributes.keys() - op.read - _MEANINGLESS
        if unread:
            names = ", ".join(map(repr, sorted(unread)))
            raise UnsupportedError(f"attribute {names} has no meaning for this operator", code="unknown-attribute")
        wanted = [value.name for value in node.outputs if value.name]
        if len(outputs) < len(node.outputs) and any(value.name for value in node.outputs[len(outputs) :]):
            reason = f"{len(wanted)} outputs are listed, and Caffe2 gives {len(outputs)}"
            raise UnsupportedError(reason, code="extra-output")
        _bind(op.made, outputs, node)
        if self.foreign == "carry" and len(op.made.ops) > 1:
            raise UnsupportedError("no one operator of Caffe2 computes this")
        return op.made

    def _called(self, converter: Converter, node: ir.Node, here: Location) -> tuple[Op, tuple[str, ...]]:
        """What a converter makes of a node, called again with wider operands where it asks for them."""
        widened: frozenset[ir.DataType] = frozenset()
        while True:
            op = Op(node, here, self, widened=widened)
            try:
                return op, op.outputs(_as_tuple(converter(op)))
            except TooNarrowError as error:
                widened |= {error.dtype}

    def converter(self, node: ir.Node) -> Converter | None:
        """The converter of a node's type, if there is one."""
        return self.converters.get(f"{node.domain}::{node.op_type}" if node.domain else node.op_type)

    def _body(self, graph: ir.Graph, place: Location) -> NetDef:
        """The net of a body of a carried node: all of it travels as it is."""
        net = NetDef(name=graph.name or place.net)
        net.external_input.extend(str(value.name) for value in graph.inputs)
        net.external_output.extend(str(value.name) for value in graph.outputs)
        describe_net(net, graph, {})
        for value in graph.initializers.values():  # those that could not be lifted out
            net.op.append(_constant(value))
        net.op.extend(carried(node, lambda body, name: self._body(body, place.enter(name))) for node in graph)
        return net

    def _report_unknown_inside(self, node: ir.Node, here: Location) -> None:
        """Report the nodes without a conversion in bodies that were not lowered: all findings come at once."""
        for attr in node.attributes.values():
            if attr.type != ir.AttributeType.GRAPH:
                continue
            for index, inner in enumerate(attr.as_graph()):
                place = here.enter(attr.name, index, inner.op_type, inner.name or "")
                if self.converter(inner) is None:
                    reason = f"operator {inner.op_type!r} has no conversion to Caffe2 operators"
                    self.report("unknown-operator", reason, place)
                self._report_unknown_inside(inner, place)

    def initializers(self, values: Iterable[ir.Value], net: NetDef, place: Location) -> None:
        """The initializers as parameters, not read yet; what Caffe2 has no tensors of is a finding, or carried."""
        for value in values:
            tensor = value.const_value
            name = str(value.name)
            if tensor is None:
                self.report("no-values", f"initializer {name!r} has no values", place)
            elif tensor.dtype in CAFFE2_TYPES:
                self.parameters[name] = _parameter(name, tensor)
            elif self.foreign == "carry":
                net.op.append(_constant(value))
            else:
                reason = f"initializer {name!r} is {tensor.dtype.name.lower()}, and Caffe2 has no tensors of that"
                self.report("dtype", reason, place)

    def report(self, code: str, reason: str, here: Location, hint: str = "") -> None:
        """Add a finding."""
        self.findings.append(Diagnostic(code, reason, here, Severity.ERROR, hint))


def value_names(model: ir.Model) -> set[str]:
    """The names of all values of all graphs."""
    return {
        str(value.name)
        for graph in model.graphs()
        for value in (
            *graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)
        )
    }  # fmt: skip


def _is_known(node: ir.Node) -> bool:
    """Whether the way back, which infers types and ranks anew, will know of this node what the import does."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None and value.name]
    return all(value.shape is not None and value.type is not None for value in values)


def constant_parameter(name: str, array: Array) -> Parameter:
    """A parameter that holds ``array``."""
    return Parameter(name, array.dtype, array.shape, lambda: array)


def _parameter(name: str, tensor: ir.TensorProtocol) -> Parameter:
    text = tensor.dtype == ir.DataType.STRING
    dtype = np.dtype(object) if text else tensor.dtype.numpy()
    shape = tuple(tensor.shape.numpy())
    return Parameter(
        name, dtype, shape, lambda: _texts(tensor) if text else np.array(tensor.numpy(), dtype).reshape(shape)
    )


def _texts(tensor: ir.TensorProtocol) -> Array:
    array = np.empty(tensor.size, object)
    array[:] = [text.encode() if isinstance(text, str) else bytes(text) for text in tensor.numpy().reshape(-1).tolist()]
    return array.reshape(tuple(tensor.shape.numpy()))


def _constant(value: ir.Value) -> OperatorDef:
    tensor = value.const_value
    assert tensor is not None
    return carried_constant(str(value.name), ir.AttrTensor("value", tensor), value)


def _bind(made: Emitted, outputs: tuple[str, ...], node: ir.Node) -> None:
    """Give what was made the names of the node's outputs; what is another blob already is copied."""
    own = {name for op in made.ops for name in op.output}
    renamed: dict[str, str] = {}
    copies = []
    for blob, value in zip(outputs, node.outputs, strict=False):
        target = value.name
        if not target:
            continue
        if blob in own and blob not in renamed:
            renamed[blob] = target
        elif blob in made.constants and blob not in renamed:
            made.constants[target] = made.constants.pop(blob)
            renamed[blob] = target
        else:
            copies.append(OperatorDef(type="Copy", input=[renamed.get(blob, blob)], output=[target]))
    for op in made.ops if renamed else ():
        for names in (op.input, op.output):
            for index, name in enumerate(names):
                if name in renamed:
                    names[index] = renamed[name]
    made.ops += copies


def _as_tuple(outputs: Outputs) -> tuple[str, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
