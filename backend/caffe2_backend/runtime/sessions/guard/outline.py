"""The outline of a serialized ONNX model: its nodes and the dims of its weights, without the weights."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import onnx
from google.protobuf.message import DecodeError

from caffe2_bridge.wire import Buffer, Span, WireError, split
from caffe2_frontend.interop.files.strip_weights import SMALL_TENSOR_BYTES, split_weights

_SMALL: Final = 1 << 20  # bytes that are parsed in less time than weights are found in them
_CONTENTS: Final = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_CONTENT_FIELDS: Final = frozenset(onnx.TensorProto.DESCRIPTOR.fields_by_name[name].number for name in _CONTENTS)


def outline(model: bytes | str, op_types: Collection[bytes]) -> onnx.ModelProto | None:
    """Return a model in memory or in a file as a message; in that of a large one, larger initializers have no contents.

    Their weights are neither read nor copied. None where the rest of the model has none of ``op_types`` as text, is
    malformed or cannot be read: whoever loads the model says why.
    """
    try:
        if isinstance(model, bytes) and len(model) <= _SMALL:
            is_read = any(op_type in model for op_type in op_types)
            return onnx.ModelProto.FromString(model) if is_read else None
        buffer = Buffer.of_file(model) if isinstance(model, str) else Buffer(model)
        rest, weights = split_weights(buffer.span())
        if not any(op_type in rest for op_type in op_types):
            return None
        found = onnx.ModelProto.FromString(rest)
        found.graph.initializer.extend(map(_tensor, weights))
    except (OSError, WireError, DecodeError):
        return None
    return found


def _tensor(span: Span) -> onnx.TensorProto:
    if len(span) <= SMALL_TENSOR_BYTES:
        return onnx.TensorProto.FromString(span.tobytes())
    return onnx.TensorProto.FromString(split(span, _CONTENT_FIELDS)[0])


def is_outlined(tensor: onnx.TensorProto) -> bool:
    """Whether an initializer of an outline has no contents, although it has elements."""
    return not any(getattr(tensor, name) for name in _CONTENTS) and 0 not in tensor.dims
