"""Run onnx.checker, and complete the shapes of the outputs by ONNX's shape inference."""

from __future__ import annotations

import logging
from typing import ClassVar

import onnx
import onnx_ir as ir

from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.files.serialize import write_model
from caffe2_frontend.interop.files.strip_weights import drop_generated_dim_names, weights_as_inputs
from caffe2_frontend.interop.inference.shape_inference import infer_output_shapes
from caffe2_frontend.interop.inference.varying_ranks import declare_stand_ins, has_varying_rank
from caffe2_frontend.interop.input_hint import input_hint
from caffe2_frontend.interop.types import INT32, INT64, TensorInfo
from caffe2_frontend.state import Export

logger = logging.getLogger(__name__)


class CheckModel(InPlacePass[Export]):
    """Infer all types and shapes with ONNX, complete those of the outputs, and check the model against ONNX's rules.

    ONNX reads the model without its weights, so that a model of any size is checked in little memory. A net that
    carries ONNX operators brings the types of their outputs with it, and may use domains that ONNX does not know: its
    model is not checked.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"checked"})

    def __call__(self, state: Export) -> None:
        """Complete and check the model. Raises ConversionError where it is invalid or an output's rank is unknown."""
        model = state.model
        if model is None or state.foreign:
            logger.debug("model not checked: the net carries ONNX operators")
            return
        with weights_as_inputs(model):
            written = write_model(model, metadata=False)
        try:
            shapes = infer_output_shapes(written)
        except onnx.shape_inference.InferenceError as error:
            # Operators that converters accept one by one may still be incompatible with each other.
            reason = f"ONNX's shape inference rejects the model: {str(error).strip()}"
            found = Diagnostic("invalid-operands", reason, Location(str(model.graph.name)))
            raise ConversionError([*state.findings, found]) from None
        for value in model.graph.outputs:
            _complete(value, drop_generated_dim_names(shapes.get(str(value.name))))
        unknown = [_unknown_rank(value, model) for value in model.graph.outputs if _lacks_rank(value)]
        unknown += [_unknown_input(value, model) for value in model.graph.inputs if _is_plain_without_shape(value)]
        if unknown:
            raise ConversionError([*state.findings, *unknown])
        # A full check would only add strict inference of the whole model, which was done above.
        _describe_outputs(written.frame, model)
        onnx.checker.check_model(written.data)


def _is_plain_without_shape(value: ir.Value) -> bool:
    """Whether an input is a tensor, or a sparse one, without a stored shape: ONNX's checker refuses it."""
    return value.shape is None and isinstance(value.type, ir.TensorType | ir.SparseTensorType)


def _unknown_input(value: ir.Value, model: ir.Model) -> Diagnostic:
    hint = f"describe it, such as {input_hint(str(value.name), TensorInfo(value.dtype))}"
    reason = f"the rank of input {value.name!r} is unknown"
    return Diagnostic("needs-shape", reason, Location(str(model.graph.name)), hint=hint)


def _lacks_rank(value: ir.Value) -> bool:
    return value.shape is None and not has_varying_rank(value)


def _unknown_rank(output: ir.Value, model: ir.Model) -> Diagnostic:
    reason = f"the rank of output {output.name!r} is unknown"
    described = _sizes_hint(model)
    hint = f"describe the inputs with sizes, such as {described}" if described else ""
    return Diagnostic("needs-shape", reason, Location(str(model.graph.name)), hint=hint)


def _sizes_hint(model: ir.Model) -> str:
    """Return how to describe the first input that is a list of integers with its length, or the first input."""
    inputs = [value for value in model.graph.inputs if value.shape is not None]
    integers = [value for value in inputs if len(value.shape or ()) == 1 and value.dtype in (INT64, INT32)]
    for value in [*integers, *inputs]:
        dims = tuple(dim if isinstance(dim, int) else 2 for dim in value.shape or ())
        return input_hint(str(value.name), TensorInfo(value.dtype, dims))
    return ""


def _describe_outputs(proto: onnx.ModelProto, model: ir.Model) -> None:
    """Declare the completed shapes of the outputs, which the checker requires."""
    for info, value in zip(proto.graph.output, model.graph.outputs, strict=True):
        info.CopyFrom(ir.serde.serialize_value(value))
    declare_stand_ins(proto)


def _complete(value: ir.Value, shape: ir.Shape | None) -> None:
    if shape is not None and (value.shape is None or len(value.shape) == len(shape)):
        value.shape = shape if value.shape is None else _known_dims(value.shape, shape)


def _known_dims(ours: ir.Shape, theirs: ir.Shape) -> ir.Shape:
    return ir.Shape(
        [
            b if not isinstance(a, int) and (isinstance(b, int) or a.value is None) else a
            for a, b in zip(ours, theirs, strict=True)
        ]
    )
