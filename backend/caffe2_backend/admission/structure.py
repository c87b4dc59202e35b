"""Well-formedness of the graphs of a model.

ONNX's native shape inference, checker and converters rely on what is checked here: some of them end the process
otherwise.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import onnx

from caffe2_backend.admission.calls import check_calls
from caffe2_backend.admission.scopes import GraphScope
from caffe2_backend.admission.types import check_types, is_dtype
from caffe2_bridge.bounds import is_possible_shape
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.interop.domains import STANDARD_DOMAINS
from caffe2_frontend.interop.inference.value_types import nested_types
from caffe2_frontend.interop.operators import BODIES

_LARGEST_VERSION: Final = 2**31 - 1  # that ONNX can look up
# The field that holds the value of an attribute of a type whose value is a message.
_FIELDS: Final = {
    onnx.AttributeProto.GRAPH: "g", onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor", onnx.AttributeProto.TYPE_PROTO: "tp",
}  # fmt: skip


def check_structure(model: onnx.ModelProto, scopes: Sequence[GraphScope]) -> list[Diagnostic]:
    """Return the errors in the graphs of a model, except for the order of the nodes (see :func:`orders_of`)."""
    found = [*_check_opsets(model)]
    for scope in scopes:
        found += _check_nodes(scope)
        found += _check_tensors(scope)
        found += check_types(scope)
        found += _check_definitions(scope)
    found += _check_uses(scopes)
    found += check_calls(model, scopes)
    return found


def _check_opsets(model: onnx.ModelProto) -> Iterator[Diagnostic]:
    owners: list[tuple[str, Sequence[onnx.OperatorSetIdProto]]] = [(model.graph.name or "graph", model.opset_import)]
    owners += [(function.name or "function", function.opset_import) for function in model.functions]
    for name, imports in owners:
        for entry in imports:
            if not 1 <= entry.version <= _LARGEST_VERSION:
                reason = f"version {entry.version} of domain {entry.domain!r} does not exist"
                yield Diagnostic("malformed-model", reason, Location(name))


def orders_of(scopes: Sequence[GraphScope]) -> tuple[dict[GraphScope, list[int]], list[Diagnostic]]:
    """Return a stable topological order for each scope whose nodes are not in one; and errors for cycles."""
    captured = _captured(scopes)
    orders, found = {}, []
    for scope in scopes:
        reads = [{*node.input, *captured[scope][index]} for index, node in enumerate(scope.nodes)]
        order = _sorted(scope, reads)
        if len(order) < len(scope.nodes):
            first = min(set(range(len(scope.nodes))).difference(order))
            found.append(Diagnostic("cyclic-graph", "the node depends on its own outputs", scope.at(first)))
        elif order != list(range(len(order))):
            orders[scope] = order
    return orders, found


def reorder(scopes: Sequence[GraphScope], orders: Mapping[GraphScope, list[int]]) -> None:
    """Put nodes in the given orders, in place; bodies first, since to reorder nodes is to copy them."""
    for scope in reversed(scopes):
        if scope in orders:
            ordered = onnx.GraphProto(node=[scope.nodes[index] for index in orders[scope]])
            del scope.proto.node[:]
            scope.proto.node.extend(ordered.node)


def _check_nodes(scope: GraphScope) -> Iterator[Diagnostic]:
    in_function = isinstance((scope.root or scope).proto, onnx.FunctionProto)
    for index, (node, attributes) in enumerate(zip(scope.nodes, scope.attributes, strict=True)):
        reasons = ["the node has no operator type"] if not node.op_type else []
        names = [attribute.name for attribute in attributes]
        texts = (node.op_type, node.domain, node.name, *node.input[:], *node.output[:], *names)
        # Protobuf gives what is not UTF-8 as bytes.
        reasons += [f"name {text!r} is not UTF-8" for text in texts if isinstance(text, bytes)]
        if any(not placed.configuration_id for placed in node.device_configurations):
            reasons.append("a device configuration has no identifier")
        if len(names) > 1:
            reasons += [
                f"attribute {name!r} is given {count} times" for name, count in Counter(names).items() if count > 1
            ]
        for attribute in attributes:
            reasons += _attribute_faults(attribute, in_function=in_function)
        bodies = BODIES.get(node.op_type) if node.domain in STANDARD_DOMAINS else None
        if bodies:
            graphs = {a.name for a in attributes if a.type == onnx.AttributeProto.GRAPH}
            reasons += [f"attribute {name!r} must be a graph" for name in bodies if name not in graphs]
        for reason in reasons:
            yield Diagnostic("malformed-model", reason, scope.at(index))


def _attribute_faults(attribute: onnx.AttributeProto, *, in_function: bool) -> Iterator[str]:
    if not attribute.name:
        yield "an attribute has no name"
    if attribute.type == onnx.AttributeProto.UNDEFINED:
        yield f"attribute {attribute.name!r} has no type"
    if attribute.ref_attr_name:
        if not in_function:
            yield f"attribute {attribute.name!r} refers to an attribute of a function, and the node is not in one"
    elif attribute.type in _FIELDS and not attribute.HasField(_FIELDS[attribute.type]):
        yield f"attribute {attribute.name!r} has no value"
    types = [attribute.tp, *attribute.type_protos] if attribute.HasField("tp") else attribute.type_protos
    if any(part.WhichOneof("value") is None for kind in types for part in nested_types(kind)):
        yield f"attribute {attribute.name!r} has an incomplete type"


def _check_tensors(scope: GraphScope) -> Iterator[Diagnostic]:
    for tensor in scope.tensors:
        kind, dims = tensor.proto.data_type, tensor.proto.dims[:]
        if not kind or not is_dtype(kind):
            reason = f"{tensor.what} has unknown element type {kind}"
            yield Diagnostic("malformed-model", reason, scope.at(tensor.node))
        least = min(dims, default=1)
        if least < 0:
            yield Diagnostic("malformed-model", f"{tensor.what} has a negative dim: {dims}", scope.at(tensor.node))
        elif not least and not is_possible_shape(dims):  # others have their elements counted
            yield Diagnostic(
                "malformed-model", f"{tensor.what} has dims that no array has: {dims}", scope.at(tensor.node)
            )


def _inputs(scope: GraphScope) -> list[str]:
    """Return the names that exist before the first node runs, an initializer that is also an input once."""
    proto = scope.proto
    if isinstance(proto, onnx.FunctionProto):
        return list(proto.input)
    return [value.name for value in proto.input]


def _initializers(scope: GraphScope) -> list[str]:
    proto = scope.proto
    if isinstance(proto, onnx.FunctionProto):
        return []
    return [tensor.name for tensor in proto.initializer] + [s.values.name for s in proto.sparse_initializer]


def _outputs(scope: GraphScope) -> list[str]:
    proto = scope.proto
    return list(proto.output) if isinstance(proto, onnx.FunctionProto) else [value.name for value in proto.output]


def _made(scope: GraphScope) -> list[str]:
    return [name for node in scope.nodes for name in node.output if name]


def _check_definitions(scope: GraphScope) -> Iterator[Diagnostic]:
    """Check that each name is defined once; an initializer may give the default value of an input."""
    inputs, initializers = _inputs(scope), _initializers(scope)
    for name in (*inputs, *initializers, *_outputs(scope)):
        if isinstance(name, bytes):
            yield Diagnostic("malformed-model", f"name {name!r} is not UTF-8", scope.location)
    for what, names in (("input", inputs), ("initializer", initializers)):
        if "" in names:
            yield Diagnostic("malformed-model", f"an {what} has no name", scope.location)
        for name, count in Counter(filter(None, names)).items():
            if count > 1:
                yield Diagnostic("duplicate-value", f"{what} {name!r} is defined {count} times", scope.location)
    defined = {*inputs, *initializers}
    for index, node in enumerate(scope.nodes):
        for name in filter(None, node.output):
            if name in defined:
                yield Diagnostic("duplicate-value", f"output {name!r} is already defined", scope.at(index))
            defined.add(name)


def _captured(scopes: Sequence[GraphScope]) -> dict[GraphScope, dict[int, set[str]]]:
    """Return, for each scope and node, the names that bodies of the node read from outside of themselves."""
    captured: dict[GraphScope, dict[int, set[str]]] = {scope: defaultdict(set) for scope in scopes}
    for scope in reversed(scopes):  # bodies before what encloses them
        if scope.parent is not None and scope.node is not None:
            read = {*_outputs(scope), *(name for node in scope.nodes for name in node.input)}
            read.update(*captured[scope].values())
            outer = read.difference(_inputs(scope), _initializers(scope), _made(scope), ("",))
            captured[scope.parent][scope.node] |= outer
    return captured


def _check_uses(scopes: Sequence[GraphScope]) -> Iterator[Diagnostic]:
    """Check that every name that a node or an output reads is defined in its graph or in one that encloses it."""
    defined: dict[GraphScope, set[str]] = {}
    for scope in scopes:
        defined[scope] = {*_inputs(scope), *_initializers(scope), *_made(scope)}
        visible = [defined[outer] for outer in _enclosing(scope, scopes[0])]
        for index, node in enumerate(scope.nodes):
            for name in dict.fromkeys(filter(None, node.input)):
                if not any(name in names for names in visible):
                    yield Diagnostic("undefined-value", f"input {name!r} is not defined", scope.at(index))
        for name in _outputs(scope):
            if not any(name in names for names in visible):
                yield Diagnostic("undefined-value", f"output {name!r} is not defined", scope.location)


def _enclosing(scope: GraphScope, main: GraphScope) -> Iterator[GraphScope]:
    """Yield the scope, and those whose values it sees; training graphs see those of the model's graph."""
    at: GraphScope | None = scope
    while at is not None:
        yield at
        if at.parent is None and at is not main and isinstance(at.proto, onnx.GraphProto):
            yield main
        at = at.parent


def _sorted(scope: GraphScope, reads: Sequence[set[str]]) -> list[int]:
    """Return indices of nodes in topological order, of those that are ready the first first, without those of cycles.

    Kahn's algorithm.
    """
    producer = {name: index for index, node in enumerate(scope.nodes) for name in node.output if name}
    users: dict[int, list[int]] = defaultdict(list)
    missing = [0] * len(reads)
    for index, names in enumerate(reads):
        needed = {producer[name] for name in names if name in producer}
        missing[index] = len(needed)
        for other in needed:
            users[other].append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    return order
