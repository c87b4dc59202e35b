"""Functions of a model, and the calls of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import onnx

from caffe2_backend.admission.scopes import GraphScope
from caffe2_bridge.bounds import MAX_CALLS, MAX_FUNCTION_GROWTH, current_limits, hint_of
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.interop.domains import plain_domain

_Function = tuple[str, str, str]


def check_calls(model: onnx.ModelProto, scopes: Sequence[GraphScope]) -> Iterator[Diagnostic]:
    """Check that functions are defined once, and call each other without cycles and not through too many levels."""
    by_name: dict[_Function, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (plain_domain(function.domain), function.name, function.overload)
        if key in by_name:
            yield Diagnostic("duplicate-value", f"function {function.name!r} is defined twice", Location(function.name))
        by_name[key] = function
    calls: dict[_Function, set[_Function]] = {key: set() for key in by_name}
    for scope in scopes:
        root = (scope.root or scope).proto
        if isinstance(root, onnx.FunctionProto):
            called = {(plain_domain(node.domain), node.op_type, node.overload) for node in scope.nodes}
            calls[plain_domain(root.domain), root.name, root.overload] |= called.intersection(by_name)
    yield from _check_expansion(model, scopes, calls)
    yield from _check_operands(scopes, by_name)
    # In each round the functions that call no others of those that are left.
    for _ in range(MAX_CALLS):
        leaves = [key for key, called in calls.items() if not called.intersection(calls)]
        if not leaves:
            break
        for key in leaves:
            del calls[key]
    for _, name, _ in calls:
        reason = f"function {name!r} calls itself, or through more than {MAX_CALLS} levels of others"
        yield Diagnostic("nesting", reason, Location(name))


def _check_operands(
    scopes: Sequence[GraphScope], by_name: Mapping[_Function, onnx.FunctionProto]
) -> Iterator[Diagnostic]:
    """Check that a call has no more inputs and outputs than the function."""
    for scope in scopes:
        for index, node in enumerate(scope.nodes):
            function = by_name.get((plain_domain(node.domain), node.op_type, node.overload))
            if function is not None:
                operands = ("inputs", node.input, function.input), ("outputs", node.output, function.output)
                for what, given, known in operands:
                    if len(given) > len(known):
                        reason = f"the node has {len(given)} {what}, and the function that it calls {len(known)}"
                        yield Diagnostic("malformed-model", reason, scope.at(index))


def _check_expansion(
    model: onnx.ModelProto, scopes: Sequence[GraphScope], calls: Mapping[_Function, set[_Function]]
) -> Iterator[Diagnostic]:
    """Check how many nodes inlining makes: exponentially many if functions call each other twice at every level."""
    nodes: dict[_Function | None, Counter[_Function]] = defaultdict(Counter)
    for scope in scopes:
        root = (scope.root or scope).proto
        key = (plain_domain(root.domain), root.name, root.overload) if isinstance(root, onnx.FunctionProto) else None
        nodes[key].update((plain_domain(node.domain), node.op_type, node.overload) for node in scope.nodes)
    sizes: dict[_Function | None, int] = {}

    def size(key: _Function | None) -> int:
        return sum(count * (1 + sizes.get(called, 0)) for called, count in nodes[key].items())

    waiting = dict(calls)
    for _ in range(MAX_CALLS):
        leaves = [key for key, called in waiting.items() if not called.intersection(waiting)]
        for key in leaves:
            sizes[key] = size(key)
            del waiting[key]
    written = sum(counts.total() for counts in nodes.values())
    expanded = size(None)
    allowed = max(current_limits().function_nodes, MAX_FUNCTION_GROWTH * written)
    if expanded > allowed:
        reason = f"the model's functions expand to {expanded:,} nodes, from {written:,}; {allowed:,} are allowed"
        hint = hint_of("function_nodes", expanded)
        yield Diagnostic("expansion", reason, Location(model.graph.name or "graph"), hint=hint)
