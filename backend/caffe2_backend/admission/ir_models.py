"""Admission of models that the caller has as onnx_ir objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from caffe2_backend.admission.external_data import ExternalDataError, extent_of_ir
from caffe2_backend.admission.scopes import too_deep
from caffe2_bridge.bounds import MAX_BODIES
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_frontend.interop.files.strip_weights import SMALL_TENSOR_BYTES, in_memory

_Graph = ir.Graph | ir.Function


@dataclass(eq=False)
class _IrScope:
    graph: _Graph
    location: Location
    depth: int = 0
    parent: _IrScope | None = None
    node: int = 0  # the index in the parent of the node that it is a body of
    made: dict[ir.Value, int] = field(default_factory=dict)  # by which node; -1 before the first

    def at(self, index: int, node: ir.Node) -> Location:
        return replace(self.location, index=index, op_type=node.op_type, op_name=node.name or "")

    def fault(self, value: ir.Value | None, index: int, location: Location, what: str) -> Iterator[Diagnostic]:
        """Yield an error where the node at ``index`` cannot read a value."""
        scope = self
        name = None if value is None else value.name
        while True:
            if value is not None and value in scope.made:
                if scope.made[value] >= index:
                    hint = "call sort() of the graph"
                    yield Diagnostic("unsorted-graph", f"{what} {name!r} is made later", location, hint=hint)
                return
            if scope.parent is None:
                break
            scope, index = scope.parent, scope.node
        yield Diagnostic("undefined-value", f"{what} {name!r} is not defined", location)


def admit_ir(model: ir.Model, folder: str | None) -> ir.Model:
    """Return a model of the caller's own, checked; only large weights of the main graph are still external.

    Args:
        model: the model. It is not changed.
        folder: of tensors that have no folder themselves.

    Raises ConversionError.
    """
    _refuse(_check_uses(_scopes(model)))
    own = model.clone()
    _refuse(_resolve(_scopes(own), folder))
    return own


def _scopes(model: ir.Model) -> list[_IrScope]:
    """Return all graphs, functions and bodies, each after what encloses it, without recursion."""
    roots: list[_Graph] = [model.graph, *model.functions.values()]
    waiting = [_IrScope(graph, Location(graph.name or "graph")) for graph in reversed(roots)]
    found = []
    while waiting:
        scope = waiting.pop()
        found.append(scope)
        for index, node in enumerate(scope.graph):
            for name, bodies in _bodies(node):
                if scope.depth == MAX_BODIES:
                    raise too_deep(scope.at(index, node))
                location = scope.at(index, node).enter(name)
                waiting += (_IrScope(body, location, scope.depth + 1, scope, index) for body in bodies)
    return found


def _bodies(node: ir.Node) -> Iterator[tuple[str, Sequence[ir.Graph]]]:
    for name, attribute in node.attributes.items():
        if not attribute.is_ref() and attribute.type == ir.AttributeType.GRAPH:
            yield name, [attribute.as_graph()]
        elif not attribute.is_ref() and attribute.type == ir.AttributeType.GRAPHS:
            yield name, attribute.as_graphs()


def _check_uses(scopes: Sequence[_IrScope]) -> Iterator[Diagnostic]:
    for scope in scopes:
        start = [*scope.graph.inputs]
        if isinstance(scope.graph, ir.Graph):
            start += scope.graph.initializers.values()
        scope.made |= dict.fromkeys(start, -1)
        nodes = list(scope.graph)
        scope.made |= {value: index for index, node in enumerate(nodes) for value in node.outputs}
        for index, node in enumerate(nodes):
            for value in node.inputs:
                if value is not None:
                    yield from scope.fault(value, index, scope.at(index, node), "input")
        for value in scope.graph.outputs:
            yield from scope.fault(value, len(nodes), scope.location, "output")


def _resolve(scopes: Sequence[_IrScope], folder: str | None) -> Iterator[Diagnostic]:
    """Check external tensors, and replace them by ones in memory or by ones that name the file itself."""
    for scope in scopes:
        if isinstance(scope.graph, ir.Graph):
            yield from _resolve_initializers(scope.graph, scope.location, folder, lazy=scope is scopes[0])
        else:
            yield from _resolve_attributes(scope.graph.attributes, scope.location, folder)
        for index, node in enumerate(scope.graph):
            yield from _resolve_attributes(node.attributes, scope.at(index, node), folder)


def _resolve_initializers(
    graph: ir.Graph, location: Location, folder: str | None, *, lazy: bool
) -> Iterator[Diagnostic]:
    for value in graph.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            try:
                value.const_value = _resolved(value.const_value, folder, lazy=lazy)
            except ExternalDataError as error:
                yield _fault(f"initializer {value.name!r}", error, location)


def _resolve_attributes(
    attributes: MutableMapping[str, ir.Attr], location: Location, folder: str | None
) -> Iterator[Diagnostic]:
    for name, attribute in list(attributes.items()):
        try:
            attributes[name] = _resolved_attribute(attribute, folder)
        except ExternalDataError as error:
            yield _fault(f"attribute {name!r}", error, location)


def _resolved_attribute(attribute: ir.Attr, folder: str | None) -> ir.Attr:
    if attribute.is_ref() or attribute.type not in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS):
        return attribute
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        if isinstance(tensor, ir.ExternalTensor):
            return ir.AttrTensor(attribute.name, _resolved(tensor, folder, lazy=False))
        return attribute
    tensors = attribute.as_tensors()
    if not any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors):
        return attribute
    resolved = [_resolved(t, folder, lazy=False) if isinstance(t, ir.ExternalTensor) else t for t in tensors]
    return ir.AttrTensors(attribute.name, resolved)


def _resolved(tensor: ir.ExternalTensor, folder: str | None, *, lazy: bool) -> ir.TensorProtocol:
    extent = extent_of_ir(tensor, folder)
    found = ir.ExternalTensor(
        extent.location, extent.offset, extent.length, tensor.dtype,
        shape=ir.Shape(tensor.shape), name=tensor.name, base_dir=extent.folder,
    )  # fmt: skip
    return found if lazy and extent.length > SMALL_TENSOR_BYTES else in_memory(found)


def _fault(what: str, error: ExternalDataError, location: Location) -> Diagnostic:
    return Diagnostic("external-data", f"external data of {what}: {error}", location, hint=error.hint)


def _refuse(findings: Iterable[Diagnostic]) -> None:
    found = tuple(findings)
    if found:
        raise ConversionError(found)
