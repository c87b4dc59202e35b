"""Infer the shapes and element types of blobs without running nets."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.runtime.calls.blob_workspace import as_net
from caffe2_backend.runtime.values import Int8Tensor
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.parameters import NUMBERS
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, TensorProto
from caffe2_compat.workspace.claimed_shapes import claimed_shapes
from caffe2_compat.workspace.host_inference import Known, infer_host_operator
from caffe2_compat.workspace.named_workspaces import current
from caffe2_frontend import ExportOptions, TensorInfo, analyze
from caffe2_frontend.interop.types import CAFFE2_TO_ONNX

_CAFFE2_TYPES: Final = {
    onnx_type: caffe2_type for caffe2_type, onnx_type in CAFFE2_TO_ONNX.items() if caffe2_type != TensorProto.BYTE
}
# The type of inputs that an operator needs, where those of inputs that nobody described are not known.
_INPUT_TYPES: Final = {"HalfToFloat": TensorProto.FLOAT16}
# Outputs of which Caffe2's inference claims another type than the operator computes.
_CLAIMED_TYPES: Final = {"TopK": {1: TensorProto.INT32}}


_GRADIENT: Final = "_grad"
# The second output of these describes their inputs; it is the second of two inputs of their gradients.
_JOINING: Final = ("Concat", "Reshape")
_RESTORING: Final = ("Split", "Reshape")
_RESTORED_INPUTS: Final = 2


def InferShapesAndTypes(
    nets: Iterable[Any],
    blob_dimensions: Mapping[Any, Sequence[int]] | None = None,
    nets_proto: bool = False,
    blob_types: Mapping[Any, int] | None = None,
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Infer the shapes and types of the blobs that nets write.

    Each operator is inferred from the shapes and types of its inputs, not from their values. Outputs that depend on
    values, on an unknown blob or on an operator that cannot be converted are left out, as in Caffe2.

    Args:
        nets: the nets, in order.
        blob_dimensions: the shapes of the inputs; None for those of all tensors in the current workspace.
        nets_proto: ignored, as nets of every form are accepted.
        blob_types: the types of the inputs, TensorProto.DataType; float32 for those not named.

    Returns:
        The shapes and the types (TensorProto.DataType) of all known blobs by name, inputs included.
    """
    del nets_proto
    known = _given(blob_dimensions, blob_types or {}) if blob_dimensions is not None else _workspace_tensors()
    joined: dict[str, list[Known]] = {}
    for net in map(as_net, nets):
        for op in net.op:
            found = {
                **_of_variables(op, known), **_infer(op, known), **claimed_shapes(op, known), **_restored(op, joined)
            }  # fmt: skip
            if op.type in _JOINING and len(op.output) > 1 and all(name in known for name in op.input):
                joined[op.output[1]] = [known[name] for name in op.input]
            if not found and any(name not in known for name in op.input):
                continue  # Caffe2 skips the operator
            for name in op.output:
                known.pop(name, None)
            known.update(found)
    ordered = sorted(known.items())
    return {name: shape for name, (shape, _) in ordered}, {name: dtype for name, (_, dtype) in ordered}


def _of_variables(op: OperatorDef, known: Mapping[str, Known]) -> dict[str, Known]:
    """Return those of an operator's outputs that are named as gradients of known blobs, which have the same shapes."""
    if not op.is_gradient_op or any(name not in known for name in op.input):
        return {}
    variables = {name: name.removesuffix(_GRADIENT) for name in op.output if name.endswith(_GRADIENT)}
    return {name: known[variable] for name, variable in variables.items() if variable in known}


def _restored(op: OperatorDef, joined: Mapping[str, Sequence[Known]]) -> dict[str, Known]:
    """Return the outputs of the gradient of a Concat or a Reshape, which reads what that one noted of its inputs."""
    if not op.is_gradient_op or op.type not in _RESTORING or len(op.input) != _RESTORED_INPUTS:
        return {}
    return dict(zip(op.output, joined.get(op.input[1], ()), strict=False))


def _given(dimensions: Mapping[Any, Sequence[int]], types: Mapping[Any, int]) -> dict[str, Known]:
    by_name = {str(name): dtype for name, dtype in types.items()}
    return {
        str(name): ([int(dim) for dim in dims], by_name.get(str(name), TensorProto.FLOAT))
        for name, dims in dimensions.items()
    }


def _workspace_tensors() -> dict[str, Known]:
    known: dict[str, Known] = {}
    for name in current().blobs():
        try:
            value = current().fetch(name, on_device=True)
        except BridgeError:  # without a value, or not a tensor
            continue
        if isinstance(value, bytes):
            continue
        data = value.data if isinstance(value, Int8Tensor) else value
        known[name] = (list(data.shape), NUMBERS[np.dtype(data.dtype)])
    return known


def _infer(op: OperatorDef, known: Mapping[str, Known]) -> dict[str, Known]:
    """Infer the outputs of an operator from those of its inputs that are known; none if it cannot be converted."""
    on_host = infer_host_operator(op, known)
    if on_host is not None:
        return on_host
    if any(name not in known for name in op.input):
        return {}
    forced = _INPUT_TYPES.get(op.type)
    described = {
        name: TensorInfo(CAFFE2_TO_ONNX[forced or known[name][1]], tuple(known[name][0]))
        for name in dict.fromkeys(op.input)
    }
    net = NetDef(name="net", op=[op], external_input=described, external_output=dict.fromkeys(op.output))
    try:
        state = analyze(net, options=ExportOptions(inputs=described, training=False))
    except BridgeError:
        return _declared(op)
    if state.model is None:
        return _declared(op)
    # An output that overwrites an input has another name in the model; a fused recurrent net may omit some.
    written = list(dict.fromkeys(op.output))
    names = written if len(written) == len(state.outputs) else [blob for _, blob in state.outputs]
    values = dict(zip(names, state.graph.outputs, strict=False))
    inferred = {name: found for name, value in values.items() if (found := _static(value)) is not None}
    for index, dtype in _CLAIMED_TYPES.get(op.type, {}).items():
        if index < len(op.output) and op.output[index] in inferred:
            inferred[op.output[index]] = inferred[op.output[index]][0], dtype
    return inferred


def _declared(op: OperatorDef) -> dict[str, Known]:
    """Return the output of a fill that does not run, by its arguments: Caffe2 infers ConstantFill of float16, too."""
    args = OpView(op, 0).args
    try:
        shape, dtype = args.integers("shape", default=()), args.integer("dtype", default=TensorProto.FLOAT)
    except ArgumentError:
        return {}
    is_fill = op.type == "ConstantFill" and not op.input and "shape" in args and dtype in CAFFE2_TO_ONNX
    return {op.output[0]: (list(shape), dtype)} if is_fill else {}


def _static(value: ir.Value) -> Known | None:
    """Return the shape and type of a value; None unless both are known."""
    dtype = _CAFFE2_TYPES.get(value.dtype) if value.dtype is not None else None
    if dtype is None or value.shape is None or not all(isinstance(dim, int) for dim in value.shape):
        return None
    return [int(dim) for dim in value.shape.numpy()], dtype
