"""Convert the model to the opset that the caller asked for."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar

import onnx
import onnx_ir as ir
from onnx.helper import find_min_ir_version_for  # noqa: TID251 - a table of versions, no graph building

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.passes import FunctionalPass
from caffe2_frontend.interop.files.strip_weights import without_weights
from caffe2_frontend.interop.inference.varying_ranks import declare_stand_ins, mark_varying_ranks
from caffe2_frontend.opsets import InexpressibleError, downgrade
from caffe2_frontend.state import Export

logger = logging.getLogger(__name__)

# What the converters and the checker raise where the opset cannot express the model.
_FAILURES = (
    InexpressibleError,
    RuntimeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
)


class ConvertOpset(FunctionalPass[Export]):
    """Convert the model from the working opset to another with ONNX's converters, and report what they cannot do."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"opset"})

    def __call__(self, state: Export) -> Export:
        """Return the state with a converted model, unless the caller wants the working opset."""
        if state.opset == state.working_opset or state.model is None:
            return state
        try:
            model = _converted(state.model, state.opset, state.working_opset)
            mark_varying_ranks(state.model, model)
            proto = without_weights(model)
            declare_stand_ins(proto)
            onnx.checker.check_model(proto, full_check=True)
        except _FAILURES as error:
            logger.debug("opset %d cannot express the model", state.opset, exc_info=True)
            return _refused(state, _first_line(error))
        return replace(state, model=model)


def _converted(model: ir.Model, opset: int, working_opset: int) -> ir.Model:
    """Convert a copy: by onnxscript's converter to later opsets, by :mod:`caffe2_frontend.opsets` to earlier ones."""
    model = model.clone()
    if opset > working_opset:
        from onnxscript import version_converter

        version_converter.convert_version(model, opset, fallback=False)
    else:
        downgrade(model, opset)
    model.ir_version = find_min_ir_version_for([_opset_id(opset)])
    return model


def _opset_id(version: int) -> onnx.OperatorSetIdProto:
    return onnx.OperatorSetIdProto(domain="", version=version)


def _refused(state: Export, why: str) -> Export:
    reason = f"the model cannot be converted from opset {state.working_opset} to {state.opset}: {why}"
    location = Location(str(state.graph.name))
    other = "an earlier" if state.opset > state.working_opset else "a later"
    hint = f"choose {other} opset: --opset {state.working_opset}, or opset={state.working_opset}"
    return replace(state, findings=(*state.findings, Diagnostic("opset", reason, location, hint=hint)))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rpartition("failed: ")[2]
