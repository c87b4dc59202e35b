"""Records of images: TensorProtos, and Caffe's datums."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError

from caffe2_backend.runtime.host.images.settings import Box, LabelType, Settings
from caffe2_backend.runtime.values import Array
from caffe2_bridge import wire
from caffe2_bridge.diagnostics import NetFormatError, RunError
from caffe2_bridge.files.optional_packages import required
from caffe2_bridge.proto.caffe2_pb2 import TensorProto, TensorProtos

# Fields of CaffeDatum.
_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _ENCODED = 1, 2, 3, 4, 5, 7
_UNREADABLE = (224, 224, 3)  # the shape of the black image in place of one that cannot be decoded


@dataclass(frozen=True)
class Item:
    """A record.

    Attributes:
        image: uint8 [rows, columns, channels], of three channels blue, green, red.
        label: a scalar, or one value for each label; int32 or float32.
        outputs: the further outputs, flat.
        box: the part of the image that is used; None for all of it.
        is_readable: False for an image that cannot be decoded.
    """

    image: Array
    label: Array
    outputs: Sequence[Array] = field(default=())
    box: Box | None = None
    is_readable: bool = True


def read_item(content: bytes, settings: Settings) -> Item:
    """Read a record. Raises RunError if it is not one."""
    try:
        return _read_datum(content, settings) if settings.is_datum else _read_tensors(content, settings)
    except (DecodeError, NetFormatError):
        kind = "a CaffeDatum" if settings.is_datum else "a TensorProtos"
        raise RunError(f"a record of the database is not {kind}") from None


def _read_tensors(content: bytes, settings: Settings) -> Item:
    """Read an image, its label, weights where the label type has them, further outputs, and maybe a bounding box."""
    protos = TensorProtos.FromString(content).protos
    end = settings.first_output + len(settings.output_sizes)
    if len(protos) not in (end, end + 1):
        raise RunError(f"a record must have {end} tensors, and maybe a bounding box, not {len(protos)} tensors")
    proto = protos[0]
    readable = True
    if proto.data_type == TensorProto.STRING and len(proto.string_data) == 1:
        image, readable = _decoded(proto.string_data[0], color=settings.color)
    elif proto.data_type == TensorProto.BYTE and len(proto.dims) in (2, 3):
        image = _pixels(proto.byte_data, tuple(proto.dims))
    else:
        raise RunError("an image must be a text with an encoded image, or bytes with two or three dims")
    box = settings.box
    if len(protos) > end:
        if len(protos[end].int32_data) != 4:
            raise RunError("a bounding box must have four integers")
        box = Box(*protos[end].int32_data)
    outputs = [
        _further(tensor, size)
        for tensor, size in zip(protos[settings.first_output : end], settings.output_sizes, strict=True)
    ]
    return Item(_in_color(image, settings), _label(protos, settings), outputs, box, readable)


def _pixels(data: bytes, dims: tuple[int, ...]) -> Array:
    shape = dims if len(dims) == 3 else (*dims, 1)
    if shape[2] not in (1, 3) or len(data) != math.prod(shape):
        raise RunError(f"an image of the dims {list(dims)} must have 1 or 3 channels, and a byte for each value")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _label(protos: Sequence[TensorProto], settings: Settings) -> Array:
    """Return the label of an image: one, or an array with a value for each of ``num_labels``."""
    proto = protos[1]
    kind = settings.label_type
    if proto.data_type not in (TensorProto.FLOAT, TensorProto.INT32):
        raise RunError("a label must be float or int32")
    is_float = proto.data_type == TensorProto.FLOAT
    dtype = np.float32 if is_float else np.int32
    values = np.array(proto.float_data if is_float else proto.int32_data, dtype)
    if kind.is_single:
        if values.size != 1:
            raise RunError(f"an image must have one label, not {values.size}")
        return values.reshape(())
    if kind in (LabelType.DENSE, LabelType.EMBEDDING):
        if values.size != settings.num_labels:
            raise RunError(f"an image must have {settings.num_labels} labels, not {values.size}")
        return values
    indices = values.astype(np.int64)
    if indices.size and not 0 <= indices.min() <= indices.max() < settings.num_labels:
        raise RunError(f"labels must be from 0 to {settings.num_labels - 1}")
    out = np.zeros(settings.num_labels, dtype)
    if kind is LabelType.WEIGHTED_SPARSE:
        if len(protos[2].float_data) < indices.size:
            raise RunError(f"{indices.size} labels need as many weights, not {len(protos[2].float_data)}")
        out[indices] = np.array(protos[2].float_data[: indices.size], np.float32).astype(dtype)
    else:
        out[indices] = 1
    return out


def _further(proto: TensorProto, size: int) -> Array:
    match proto.data_type:
        case TensorProto.FLOAT:
            values = np.array(proto.float_data, np.float32)
        case TensorProto.INT32:
            values = np.array(proto.int32_data, np.int32)
        case TensorProto.INT64:
            values = np.array(proto.int64_data, np.int64)
        case TensorProto.UINT8:
            values = np.array(proto.int32_data, np.int64).astype(np.uint8)
        case _:
            raise RunError("a further output must be float, int32, int64 or uint8")
    if values.size != size:
        raise RunError(f"a further output must have {size} elements, not {values.size}")
    return values


def _read_datum(content: bytes, settings: Settings) -> Item:
    span = wire.Span.of(content)

    def integer(number: int) -> int:
        found = wire.varints(span, number)
        return int(found[-1]) if len(found) else 0

    data = b"".join(payload.tobytes() for payload in wire.payloads(span, _DATA)[-1:])
    readable = True
    if integer(_ENCODED):
        image, readable = _decoded(data, color=settings.color)
    else:
        channels, rows, columns = integer(_CHANNELS), integer(_HEIGHT), integer(_WIDTH)
        if channels not in (1, 3) or len(data) != channels * rows * columns:
            raise RunError(f"a datum of {channels} x {rows} x {columns} must have 1 or 3 channels, and all bytes")
        image = np.frombuffer(data, np.uint8).reshape(channels, rows, columns).transpose(1, 2, 0)
    label = np.array(integer(_LABEL), np.int64).astype(np.int32)
    return Item(_in_color(image, settings), label, (), settings.box, readable)


def _decoded(data: bytes, *, color: bool) -> tuple[Array, bool]:
    """Decode an image file: in colors the channels are blue, green, red. Return it, and whether that was possible."""
    images = required("PIL.Image", "images", extra="images")
    try:
        with images.open(io.BytesIO(data)) as file:
            if color:
                return np.asarray(file.convert("RGB"))[:, :, ::-1], True
            file.draft("L", file.size)  # a JPEG file is decoded without its colors
            if file.mode == "L":
                return np.asarray(file)[:, :, None], True
            return _gray(np.asarray(file.convert("RGB"))[:, :, ::-1]), True
    except (OSError, ValueError, SyntaxError):
        return np.zeros(_UNREADABLE, np.uint8), False


def _in_color(image: Array, settings: Settings) -> Array:
    """Convert to the number of channels that are asked for."""
    if image.shape[2] == settings.channels:
        return image
    return _gray(image) if settings.channels == 1 else np.repeat(image, 3, axis=2)


def _gray(image: Array) -> Array:
    """Convert blue, green and red to gray, in OpenCV's integers with 14 bits of fraction."""
    total: Array = image.astype(np.int64) @ np.array([1868, 9617, 4899])
    gray: Array = (total + (1 << 13)) >> 14
    return gray.astype(np.uint8)[:, :, None]
