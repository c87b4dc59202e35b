"""The last word on a model: ONNX's own checker, with full shape inference."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import onnx
import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.interop.embedded_onnx import is_foreign
from caffe2_frontend.interop.shape_inference import infer_shapes
from caffe2_frontend.interop.strip_weights import without_made_up_names, without_weights
from caffe2_frontend.state import Export


class CheckModel:
    """Infer all types and shapes with ONNX and check the model against ONNX's own rules.

    Weights are left out of what ONNX reads, so that a model of any size is checked in little memory. A net that carries
    ONNX operators brings the types of their outputs with it, and may use domains that ONNX knows nothing of: it stays
    as it is.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"checked"})

    def __call__(self, state: Export) -> Export:
        """Complete the shapes of the model's values; the findings are the outputs whose rank stays unknown."""
        model = state.model
        if model is None or is_foreign(state.predict):
            return state
        proto = without_weights(model)
        findings = list(state.findings)
        try:
            inferred = infer_shapes(proto, strict_mode=True, data_prop=True)
        except onnx.shape_inference.InferenceError as error:
            # What the converters check one by one may still not go together.
            findings.append(Diagnostic("invalid-operands", str(error).strip(), Location(str(model.graph.name))))
            return replace(state, findings=tuple(findings))
        known = {info.name: info for info in (*inferred.graph.output, *inferred.graph.value_info)}
        for value in model.graph.outputs:
            _complete(value, known.get(str(value.name)))
            if value.shape is None:
                reason = f"the rank of output {value.name!r} is unknown"
                place = Location(str(model.graph.name))
                findings.append(Diagnostic("needs-shape", reason, place, hint="give the shapes of the inputs"))
        if len(findings) == len(state.findings):
            # Strict inference of the whole model is what a full check does beyond this one.
            onnx.checker.check_model(_with_shapes(proto, model))
        return replace(state, findings=tuple(findings))


def _with_shapes(proto: onnx.ModelProto, model: ir.Model) -> onnx.ModelProto:
    """The protobuf with the shapes of the outputs as they are known now: the checker wants them."""
    for info, value in zip(proto.graph.output, model.graph.outputs, strict=True):
        info.CopyFrom(ir.serde.serialize_value(value))
    return proto


def _complete(value: ir.Value, info: onnx.ValueInfoProto | None) -> None:
    if info is None:
        return
    shape = without_made_up_names(ir.serde.deserialize_type_proto_for_shape(info.type))
    if shape is not None and (value.shape is None or len(value.shape) == len(shape)):
        value.shape = shape if value.shape is None else _known_dims(value.shape, shape)


def _known_dims(ours: ir.Shape, theirs: ir.Shape) -> ir.Shape:
    return ir.Shape(
        [
            b if not isinstance(a, int) and (isinstance(b, int) or a.value is None) else a
            for a, b in zip(ours, theirs, strict=True)
        ]
    )
