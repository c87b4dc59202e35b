"""Shapes, types and devices of blobs without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from caffe2_backend import workspace as functions
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef, TensorShapes

__all__ = [
    "infer_op_input_output_device",
    "infer_shapes_and_types_from_map",
    "infer_shapes_and_types_from_workspace",
]


def infer_shapes_and_types_from_map(
    nets: Sequence[bytes], dimensions: Mapping[str, Sequence[int]], types: Mapping[str, int] | None = None
) -> bytes:
    """Infer from the shapes of inputs; the result is a serialized TensorShapes."""
    return _serialized(*functions.InferShapesAndTypes(_nets(nets), dimensions, blob_types=types))


def infer_shapes_and_types_from_workspace(nets: Sequence[bytes]) -> bytes:
    """Infer from the tensors of the current workspace; the result is a serialized TensorShapes."""
    return _serialized(*functions.InferShapesAndTypes(_nets(nets)))


def _nets(contents: Sequence[bytes]) -> list[NetDef]:
    return [NetDef.FromString(content) for content in contents]


def _serialized(shapes: Mapping[str, Sequence[int]], types: Mapping[str, int]) -> bytes:
    message = TensorShapes()
    for name, dims in shapes.items():
        shape = message.shapes.add(name=name, dims=dims)
        shape.data_type = types[name]  # type: ignore[assignment] # an enum's number
    return message.SerializeToString()


def infer_op_input_output_device(op_def: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the serialized device options of an operator's inputs and outputs."""
    op = OperatorDef.FromString(op_def)
    option = op.device_option if op.HasField("device_option") else DeviceOption()
    content = option.SerializeToString()
    return [content] * len(op.input), [content] * len(op.output)
