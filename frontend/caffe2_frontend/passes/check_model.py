"""The last word on a model: ONNX's own checker, with full shape inference."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import onnx
import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.state import Export
from caffe2_frontend.weightless import without_weights


class CheckModel:
    """Infer all types and shapes with ONNX and check the model against ONNX's own rules.

    Weights are left out of what ONNX reads, so that a model of any size is checked in little memory.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"checked"})

    def __call__(self, state: Export) -> Export:
        """Complete the shapes of the model's values; the findings are the outputs whose rank stays unknown."""
        model = state.model
        if model is None:
            return state
        inferred = onnx.shape_inference.infer_shapes(without_weights(model), strict_mode=True, data_prop=True)
        findings = list(state.findings)
        known = {info.name: info for info in (*inferred.graph.output, *inferred.graph.value_info)}
        for value in model.graph.outputs:
            _complete(value, known.get(str(value.name)))
            if value.shape is None:
                reason = f"the rank of output {value.name!r} is unknown"
                place = Location(str(model.graph.name))
                findings.append(Diagnostic("needs-shape", reason, place, hint="give the shapes of the inputs"))
        if len(findings) == len(state.findings):
            onnx.checker.check_model(without_weights(model), full_check=True)
        return replace(state, findings=tuple(findings))


def _complete(value: ir.Value, info: onnx.ValueInfoProto | None) -> None:
    if info is None:
        return
    shape = _without_made_up_names(ir.serde.deserialize_type_proto_for_shape(info.type))
    if shape is not None and (value.shape is None or len(value.shape) == len(shape)):
        value.shape = shape if value.shape is None else _known_dims(value.shape, shape)


def _without_made_up_names(shape: ir.Shape | None) -> ir.Shape | None:
    """The shape without the names that ONNX's inference gives to dims it knows nothing of."""
    if shape is None:
        return None
    return ir.Shape(
        [None if isinstance(dim, ir.SymbolicDim) and (dim.value or "").startswith("unk__") else dim for dim in shape]
    )


def _known_dims(ours: ir.Shape, theirs: ir.Shape) -> ir.Shape:
    return ir.Shape(
        [
            b if not isinstance(a, int) and (isinstance(b, int) or a.value is None) else a
            for a, b in zip(ours, theirs, strict=True)
        ]
    )
