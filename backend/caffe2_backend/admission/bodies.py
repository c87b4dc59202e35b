"""Bodies of ONNX's control operators have the inputs and outputs that their nodes ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import onnx

from caffe2_backend.admission.scopes import GraphScope
from caffe2_bridge.diagnostics import Diagnostic
from caffe2_frontend.interop.domains import STANDARD_DOMAINS

_Attributes = Mapping[str, onnx.AttributeProto]


def check_bodies(scope: GraphScope) -> Iterator[Diagnostic]:
    """Report the nodes of a scope, whose attributes are of the types that ONNX defines, with other bodies."""
    for index, node in enumerate(scope.nodes):
        check = _CHECKS.get(node.op_type) if node.domain in STANDARD_DOMAINS else None
        if check is not None:
            attributes = {attribute.name: attribute for attribute in node.attribute}
            for reason in check(node, attributes):
                yield Diagnostic("malformed-model", reason, scope.at(index))


def _check_if(node: onnx.NodeProto, attributes: _Attributes) -> Iterator[str]:
    for name in ("then_branch", "else_branch"):
        branch = attributes[name].g
        if branch.input:
            yield f"{name} must not have inputs"
        if len(branch.output) != len(node.output):
            yield f"{name} has {len(branch.output)} outputs, and the node {len(node.output)}"


def _check_loop(node: onnx.NodeProto, attributes: _Attributes) -> Iterator[str]:
    body, states = attributes["body"].g, max(len(node.input) - 2, 0)
    if len(body.input) != 2 + states:
        yield f"the body has {len(body.input)} inputs; 2 and the node's {states} states are needed"
    if len(body.output) < 1 + states or len(body.output) - 1 < len(node.output):
        yield f"the body has {len(body.output)} outputs; a condition, {states} states and those of the node are needed"


def _check_scan(node: onnx.NodeProto, attributes: _Attributes) -> Iterator[str]:
    body, scanned = attributes["body"].g, attributes["num_scan_inputs"].i
    given = len(node.input) - (len(node.input) == len(body.input) + 1)  # opset 8 has the lengths of sequences first
    if not 1 <= scanned <= given:
        yield f"num_scan_inputs must be from 1 to {given}, not {scanned}"
    elif len(body.input) != given:
        yield f"the body has {len(body.input)} inputs, and the node {given}"
    elif len(body.output) < max(given - scanned, len(node.output)):
        yield f"the body has {len(body.output)} outputs; those of {given - scanned} states and of the node are needed"


_CHECKS: Final[Mapping[str, Callable[[onnx.NodeProto, _Attributes], Iterator[str]]]] = {
    "If": _check_if, "Loop": _check_loop, "Scan": _check_scan,
}  # fmt: skip
