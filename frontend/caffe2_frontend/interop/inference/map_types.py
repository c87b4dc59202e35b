"""Types that hold maps, which onnx_ir does not represent: values of such types have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def nested_types(kind: onnx.TypeProto) -> Iterator[onnx.TypeProto]:
    """A type, and the types of its elements."""
    yield kind
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = (kind.sequence_type if kind.HasField("sequence_type") else kind.optional_type).elem_type
        yield kind


def holds_map(kind: onnx.TypeProto) -> bool:
    """Whether a type is a map, or a sequence or optional of maps."""
    return any(part.HasField("map_type") for part in nested_types(kind))


def forget_maps(infos: Iterable[onnx.ValueInfoProto]) -> None:
    """Remove the types that hold maps, in place."""
    for info in infos:
        if not info.type.HasField("tensor_type") and holds_map(info.type):
            info.ClearField("type")
