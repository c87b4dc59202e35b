"""A large model in one file: its weights stay in the file, which is mapped, and are read when they are used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from caffe2_bridge.wire import Buffer, Span, WireError, split
from caffe2_frontend.interop.files.strip_weights import split_weights

_LARGE: Final = 64 << 20  # bytes of a file; one of fewer is parsed whole
_LARGE_WEIGHT: Final = 64 << 10
_RAW_DATA: Final = onnx.TensorProto.RAW_DATA_FIELD_NUMBER


@dataclass(frozen=True)
class MappedModel:
    """A model whose large initializers are external data without a location, and where their values are, by name."""

    proto: onnx.ModelProto
    weights: Mapping[str, Span]


def mapped_model(path: Path) -> MappedModel | None:
    """Return a model; None where its file is small, malformed or of another format: whoever parses it says why.

    Raises OSError.
    """
    if not path.is_file() or path.stat().st_size < _LARGE:
        return None
    try:
        rest, tensors = split_weights(Buffer.of_file(str(path)).span())
        proto = onnx.ModelProto.FromString(rest)
        weights = {}
        for span in tensors:
            tensor, values = _without_values(span)
            proto.graph.initializer.append(tensor)
            if values is not None:
                weights[tensor.name] = values
    except (WireError, DecodeError):
        return None
    return (
        MappedModel(proto, weights)
        if len({tensor.name for tensor in proto.graph.initializer}) == len(tensors)
        else None
    )


def _without_values(span: Span) -> tuple[onnx.TensorProto, Span | None]:
    """Return a tensor, and where its values are, if it is large and as long as its shape says."""
    rest, found = split(span, {_RAW_DATA}) if len(span) > _LARGE_WEIGHT else (b"", ())
    if len(found) != 1:
        return onnx.TensorProto.FromString(span.tobytes()), None
    tensor, values = onnx.TensorProto.FromString(rest), span.within(found[0].start, found[0].end)
    if tensor.external_data or not _has_length(tensor, len(values)):
        return onnx.TensorProto.FromString(span.tobytes()), None
    tensor.data_location = onnx.TensorProto.EXTERNAL
    return tensor, values


def _has_length(tensor: onnx.TensorProto, length: int) -> bool:
    try:
        dtype = ir.DataType(tensor.data_type)
        return dtype != ir.DataType.STRING and -(-math.prod(tensor.dims) * dtype.bitwidth // 8) == length
    except (TypeError, ValueError):  # no element type of ONNX
        return False
