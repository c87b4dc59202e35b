"""The types of values: what sequences and optionals hold, their dims, and maps, which onnx_ir does not represent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def nested_types(kind: onnx.TypeProto) -> Iterator[onnx.TypeProto]:
    """Yield a type, and the types of its elements."""
    yield kind
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = (kind.sequence_type if kind.HasField("sequence_type") else kind.optional_type).elem_type
        yield kind


def shapes_of(kind: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto]:
    """Yield the shape of a tensor, or of those that a sequence or an optional holds."""
    for part in nested_types(kind):
        if part.HasField("tensor_type"):
            yield part.tensor_type.shape
        elif part.HasField("sparse_tensor_type"):
            yield part.sparse_tensor_type.shape


def negative_dims(kinds: Iterable[onnx.TypeProto]) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """Yield the dims of a negative size, which are not known: some exporters write -1."""
    for kind in kinds:
        for shape in (kind.tensor_type.shape,) if kind.HasField("tensor_type") else shapes_of(kind):
            for dim in shape.dim:
                if dim.dim_value < 0:
                    yield dim


def holds_map(kind: onnx.TypeProto) -> bool:
    """Whether a type is a map, or a sequence or optional of maps."""
    return any(part.HasField("map_type") for part in nested_types(kind))


def forget_maps(infos: Iterable[onnx.ValueInfoProto]) -> None:
    """Remove the types that hold maps, in place."""
    for info in infos:
        if not info.type.HasField("tensor_type") and holds_map(info.type):
            info.ClearField("type")
