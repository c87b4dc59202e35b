"""Lowering of an ONNX graph: each node, in order, through its converter into Caffe2 operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_backend.admission.earlier_forms import HINT, form_with_attributes
from caffe2_backend.definitions import has_definition
from caffe2_backend.lowering.carry import carried, carried_constant, describe_net
from caffe2_backend.lowering.emitter import CARRY_HINT, Emitted
from caffe2_backend.lowering.family import Converter, full_type
from caffe2_backend.lowering.malformed import failure_of
from caffe2_backend.lowering.op import Op, Outputs, TooNarrowError
from caffe2_backend.lowering.types import CAFFE2_TYPES, STORED_AS
from caffe2_backend.lowering.value import Array, Value
from caffe2_backend.restore.restored_nodes import is_restored, restored_operators
from caffe2_backend.state import WORKING_OPSET
from caffe2_bridge.control import names_in_arguments
from caffe2_bridge.diagnostics import BridgeError, Diagnostic, Location, Severity
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operator_base import RefusedBodyError, UnsupportedError

_FOR_WANT_OF_SIZES: Final = frozenset({"needs-constant", "needs-shape"})
# Attributes that older exporters left behind; they do not change what a node computes.
_MEANINGLESS: Final = frozenset({"consumed_inputs"})


@dataclass
class Lowering:
    """The state of one lowering.

    Attributes:
        converters: the converters by operator type.
        names: the names of all blobs.
        carries_nodes: whether nodes without an equivalent in Caffe2 are carried unchanged.
        sizes_hint: what to type to fix open sizes of the inputs; empty if none are open.
        parameters: the parameters so far, by name.
        diagnostics: the diagnostics so far.
    """

    converters: Mapping[str, Converter]
    names: Names
    carries_nodes: bool
    sizes_hint: str = ""
    parameters: dict[str, Parameter] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """How many diagnostics of this lowering are errors."""
        return sum(found.severity is Severity.ERROR for found in self.diagnostics)

    def graph(self, graph: ir.Graph, location: Location) -> list[OperatorDef]:
        """Return the operators of a graph's nodes; ``location`` is the graph's own location."""
        ops = []
        for index, node in enumerate(graph):
            here = Location(location.net, index, node.op_type, node.name or "", location.path)
            ops += self._node(node, here)
        return ops

    def _node(self, node: ir.Node, here: Location) -> list[OperatorDef]:
        """Return the operators that a node becomes: none where it is refused, which is reported, or the node itself."""
        if is_restored(node):
            return restored_operators(node)
        try:
            made = self._converted(node, here)
        except UnsupportedError as error:
            if self.carries_nodes:
                return [carried(node, lambda graph, name: self._body(graph, here.enter(name)))]
            if not isinstance(error, RefusedBodyError):
                self.report(error.code, error.reason, here, self._hint(error))
                self._report_unknown_inside(node, here)
            return []
        except BridgeError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of a converter: the other nodes are converted still
            self.diagnostics.append(failure_of(node, error, here))
            return []
        for name, array in made.constants.items():
            self.parameters[name] = constant_parameter(name, array)
        return made.ops

    def _hint(self, error: UnsupportedError) -> str:
        """Return the hint of a refusal: open sizes of the inputs may be why a shape, or a constant, is unknown."""
        if not self.sizes_hint or error.code not in _FOR_WANT_OF_SIZES:
            return error.hint
        return self.sizes_hint if error.code == "needs-shape" else f"{self.sizes_hint}; or {error.hint}"

    def _converted(self, node: ir.Node, here: Location) -> Emitted:
        converter = self.converter(node)
        if converter is None:
            raise _no_conversion(node)
        if self.carries_nodes and not _is_known(node):
            raise UnsupportedError("the type or the rank of an operand is unknown")
        op, outputs = self._called(converter, node, here)
        unread = [name for name in op.args.unread if name not in _MEANINGLESS]
        if unread:
            names = ", ".join(map(repr, sorted(unread)))
            clause = "" if node.domain else form_with_attributes(node.op_type, WORKING_OPSET, unread)
            reason = f"{node.op_type} has no attribute {names}{clause}"
            raise UnsupportedError(reason, HINT if clause else CARRY_HINT, "unknown-attribute")
        wanted = sum(op.wants(index) for index in range(len(node.outputs)))
        if any(op.wants(index) for index in range(len(outputs), len(node.outputs))):
            reason = f"{wanted} outputs of the node are read, and Caffe2 computes {len(outputs)}"
            raise UnsupportedError(reason, CARRY_HINT, "extra-output")
        _bind(op.emitted, outputs, node)
        _drop_unread(op.emitted, node)
        if self.carries_nodes and len(op.emitted.ops) > 1:
            raise UnsupportedError("no single operator of Caffe2 computes this")
        return op.emitted

    def _called(self, converter: Converter, node: ir.Node, here: Location) -> tuple[Op, tuple[Value | None, ...]]:
        """Return what a converter makes of a node; it is called again with wider operands where it asks for them."""
        widened: frozenset[ir.DataType] = frozenset()
        while True:
            op = Op(node, here, self, widened)
            try:
                return op, op.narrow_outputs(_as_tuple(converter(op)))
            except TooNarrowError as error:
                widened |= {error.dtype}

    def converter(self, node: ir.Node) -> Converter | None:
        """Return the converter of a node's type, None where the import has none."""
        return self.converters.get(full_type(node))

    def _body(self, graph: ir.Graph, location: Location) -> NetDef:
        """Return the net of a body of a carried node: its nodes are carried too."""
        net = NetDef(name=graph.name or location.net)
        net.external_input.extend(str(value.name) for value in graph.inputs)
        net.external_output.extend(str(value.name) for value in graph.outputs)
        describe_net(net, graph, {})
        for value in graph.initializers.values():  # those that could not be lifted out
            net.op.append(_constant(value))
        net.op.extend(carried(node, lambda body, name: self._body(body, location.enter(name))) for node in graph)
        return net

    def _report_unknown_inside(self, node: ir.Node, here: Location) -> None:
        """Report the nodes without a conversion in bodies that were not lowered, so that all are reported at once."""
        for attr in node.attributes.values():
            if attr.type != ir.AttributeType.GRAPH:
                continue
            for index, inner in enumerate(attr.as_graph()):
                location = here.enter(attr.name, index, inner.op_type, inner.name or "")
                if self.converter(inner) is None:
                    found = _no_conversion(inner)
                    self.report(found.code, found.reason, location, found.hint)
                self._report_unknown_inside(inner, location)

    def initializers(self, values: Iterable[ir.Value], net: NetDef, location: Location) -> None:
        """Make parameters of initializers, without reading them.

        One of an element type that Caffe2 lacks is carried as a Constant, or reported.
        """
        for value in values:
            tensor = value.const_value
            name = str(value.name)
            if tensor is None:
                self.report(
                    "no-values", f"initializer {name!r} has no values", location, "save the model with its weights"
                )
            elif tensor.dtype in CAFFE2_TYPES or (tensor.dtype in STORED_AS and not self.carries_nodes):
                self.parameters[name] = _parameter(name, tensor)
            elif self.carries_nodes:
                net.op.append(_constant(value))
            else:
                reason = f"initializer {name!r} is {tensor.dtype.name.lower()}, which Caffe2's tensors cannot hold"
                self.report("dtype", reason, location, CARRY_HINT)

    def report(
        self, code: str, reason: str, here: Location, hint: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        """Add a diagnostic."""
        self.diagnostics.append(Diagnostic(code, reason, here, severity, hint))


def _no_conversion(node: ir.Node) -> UnsupportedError:
    """Return why a node has none. One that other operators define may have one where sizes are known."""
    reason = f"operator {full_type(node)!r} has no conversion to Caffe2 operators"
    shapes = [value.shape for value in node.inputs if value is not None]
    if all(shape is not None and shape.is_static() for shape in shapes) or not _is_defined_by_types(node):
        return UnsupportedError(reason, CARRY_HINT, "unknown-operator")
    return UnsupportedError(f"{reason} where sizes of its operands are not known", Op.shape_hint, "needs-shape")


def _is_defined_by_types(node: ir.Node) -> bool:
    """Whether a node has a definition by other operators that depends on the types of its operands."""
    if has_definition(node):
        return True
    domain = "" if is_standard(node) else node.domain
    schema: Any = onnx.defs.get_schema(node.op_type, domain=domain) if onnx.defs.has(node.op_type, domain) else None
    return schema is not None and bool(schema.has_context_dependent_function)  # which stubs of onnx lack


def _is_known(node: ir.Node) -> bool:
    """Whether types and ranks are known, so that the export of the Caffe2 operator can infer them again."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None and value.name]
    return all(value.shape is not None and value.type is not None for value in values)


def constant_parameter(name: str, array: Array) -> Parameter:
    """Return a parameter that holds ``array``."""
    return Parameter(name, array.dtype, array.shape, lambda: array)


def _parameter(name: str, tensor: ir.TensorProtocol) -> Parameter:
    text = tensor.dtype == ir.DataType.STRING
    own = np.dtype(object) if text else tensor.dtype.numpy()
    dtype = STORED_AS[tensor.dtype].numpy() if tensor.dtype in STORED_AS else own
    shape = tuple(tensor.shape.numpy())
    # Not copied: large weights are mapped from the model's file.
    return Parameter(
        name, dtype, shape,
        lambda: _strings(tensor) if text else np.asarray(tensor.numpy(), own).view(dtype).reshape(shape),
    )  # fmt: skip


def _strings(tensor: ir.TensorProtocol) -> Array:
    array = np.empty(tensor.size, object)
    array[:] = [text.encode() if isinstance(text, str) else bytes(text) for text in tensor.numpy().reshape(-1).tolist()]
    return array.reshape(tuple(tensor.shape.numpy()))


def _constant(value: ir.Value) -> OperatorDef:
    tensor = value.const_value
    assert tensor is not None
    return carried_constant(str(value.name), ir.AttrTensor("value", tensor), value)


def _bind(made: Emitted, outputs: tuple[Value | None, ...], node: ir.Node) -> None:
    """Give the emitted blobs the names of the node's outputs; a blob that is not the node's own is copied.

    An output may be an operand, a blob that is an output already, or a constant.
    """
    own = {name for op in made.ops for name in op.output}
    renamed: dict[str, str] = {}
    copies = []
    for made_value, value in zip(outputs, node.outputs, strict=False):
        target = value.name
        if not target or made_value is None:
            continue
        blob = made_value.name
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


def _drop_unread(made: Emitted, node: ir.Node) -> None:
    """Remove the operators of a node whose results neither the node outputs nor later ones of it read."""
    if len(made.ops) < 2:
        return
    read = {value.name for value in node.outputs}
    kept = []
    for op in reversed(made.ops):
        if not read.isdisjoint(op.output):
            kept.append(op)
            read.update(op.input, names_in_arguments(op))
    made.ops[:] = reversed(kept)


def _as_tuple(outputs: Outputs) -> tuple[Value | None, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
