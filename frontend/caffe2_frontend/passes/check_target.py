"""Report what the target of the export cannot take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.passes import FunctionalPass
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.metadata.origin import LOCATION_KEY
from caffe2_frontend.state import Export
from caffe2_frontend.targets.table import find_target
from caffe2_frontend.targets.target import Target


class CheckTarget(FunctionalPass[Export]):
    """Report the operators and the element types that the target does not have, all at once."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"target"})

    def __call__(self, state: Export) -> Export:
        """Return the state with a diagnostic for each operator and reason."""
        target = find_target(state.options.target)
        if state.model is None:
            return state
        here = Location(str(state.graph.name))
        reasons = dict.fromkeys(reason for node in all_nodes(state.graph) for reason in _reasons(node, target))
        reasons |= dict.fromkeys(_input_reasons(state.graph, target))
        hint = f"leave out --for, or target=, to export for onnxruntime; the table of {target.name}: {target.source}"
        return replace(
            state, findings=(*state.findings, *(Diagnostic("target-lacks", each, here, hint=hint) for each in reasons))
        )


def _reasons(node: ir.Node, target: Target) -> Iterator[str]:
    kind = standard_type(node) or f"{node.domain}.{node.op_type}"
    made_of = node.metadata_props.get(LOCATION_KEY)
    what = kind + (f" (of {made_of})" if made_of else "")
    first = node.inputs[0] if node.inputs else None
    of_type = f"{kind} of {first.dtype.name.lower()}" if first is not None and first.dtype is not None else kind
    lacking = target.lacks.get(kind) or target.lacks.get(of_type)
    if lacking:
        yield f"{target.name} does not take {what}: {lacking}"
    elif target.only is not None and kind not in target.only:
        yield f"{target.name} does not take {what}"
    for index in target.constants.get(kind, ()):
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is not None and value.const_value is None and not _is_constant(value):
            yield f"{target.name} takes {what} only if input {index} is a constant"
    for value in node.outputs:
        if value.dtype in target.dtypes:
            yield f"{target.name} has no {value.dtype.name.lower()} tensors, as {what} outputs"


def _is_constant(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and standard_type(node) == "Constant"


def _input_reasons(graph: ir.Graph, target: Target) -> Iterator[str]:
    for value in graph.inputs:
        if value.dtype in target.dtypes:
            yield f"{target.name} has no {value.dtype.name.lower()} tensors, as input {value.name!r} is"
