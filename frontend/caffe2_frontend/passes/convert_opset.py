"""The opset that the caller asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import onnx
import onnx.version_converter
import onnx_ir as ir
from onnx.helper import find_min_ir_version_for  # noqa: TID251 - a table of versions, no graph building

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.interop.strip_weights import with_weights, without_weights
from caffe2_frontend.state import Export

# What the converters and the checker raise where the opset cannot express the model.
_FAILURES = (RuntimeError, ValueError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError)


class ConvertOpset:
    """Convert the model from the working opset to another, with ONNX's converters; what they cannot do is a finding."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"opset"})

    def __call__(self, state: Export) -> Export:
        """Convert, unless the working opset is what is wanted."""
        if state.opset == state.working_opset or state.model is None:
            return state
        try:
            model = _converted(state.model, state.opset, state.working_opset)
            onnx.checker.check_model(without_weights(model), full_check=True)
        except _FAILURES as error:
            return _refused(state, _first_line(error))
        return replace(state, model=model)


def _converted(model: ir.Model, opset: int, working_opset: int) -> ir.Model:
    """Later opsets by onnxscript's converter, the better kept one; earlier ones by ONNX's, which alone knows them."""
    if opset > working_opset:
        from onnxscript import version_converter

        version_converter.convert_version(model, opset, fallback=False)
    else:
        model = with_weights(onnx.version_converter.convert_version(without_weights(model), opset), model)
    model.ir_version = find_min_ir_version_for([_opset_id(opset)])
    return model


def _opset_id(version: int) -> onnx.OperatorSetIdProto:
    return onnx.OperatorSetIdProto(domain="", version=version)


def _refused(state: Export, why: str) -> Export:
    reason = f"the model cannot be converted from opset {state.working_opset} to {state.opset}: {why}"
    place = Location(str(state.graph.name))
    hint = f"ask for {'an earlier' if state.opset > state.working_opset else 'a later'} opset"
    return replace(state, findings=(*state.findings, Diagnostic("opset", reason, place, hint=hint)))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rpartition("failed: ")[2]
