"""Add the functions that the model calls."""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.state import Export


class AddFunctions(InPlacePass[Export]):
    """Add the functions of ONNX that registered converters call to the model, which has them for its readers.

    No pass before sees them: to those their calls are nodes of another domain.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"functions"})

    def __call__(self, state: Export) -> None:
        """Add the functions. Raises ConversionError for one of another opset than the model's."""
        if state.model is None:
            return
        found = []
        for function in map(ir.from_proto, state.functions.values()):
            version = function.opset_imports.get("", state.opset)
            if version != state.opset:
                reason = f"function {function.name!r} is of opset {version}, and the model of opset {state.opset}"
                hint = f"write the function for opset {state.opset}, or export the model with opset {version}"
                found.append(Diagnostic("opset", reason, Location(str(state.model.graph.name)), hint=hint))
            state.model.functions[function.identifier()] = function
        if found:
            raise ConversionError([*state.findings, *found])
