"""Feed, fetch, serialize and list blobs of the current workspace."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from google.protobuf.message import Message

from caffe2_backend.runtime.calls.serialization import deserialize_blob, serialize_blob
from caffe2_backend.runtime.values import Array, DeviceTensor, Int8Tensor, NoBlobError
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.files.blobs.messages import decode_tensor
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, TensorProto
from caffe2_bridge.wire.messages import is_message
from caffe2_compat.workspace.named_workspaces import current


def FeedBlob(name: object, arr: Any, device_option: Message | None = None) -> bool:
    """Set a blob to an array, a list, a number, a text, a TensorProto, an Int8Tensor or a torch tensor.

    The device option is ignored on a machine without a GPU, as those of nets are.
    """
    option = None if device_option is None else DeviceOption.FromString(device_option.SerializeToString())
    if is_message(arr, "TensorProto"):
        arr = decode_tensor(TensorProto.FromString(arr.SerializeToString()))
    current().feed(str(name), arr, option)
    return True


def FetchBlob(name: object) -> Array | bytes:
    """Copy a blob; one without a value yields Caffe2's description of it, as bytes.

    Raises NoBlobError if the blob does not exist, and, as in Caffe2, TypeError for an Int8 blob: use FetchInt8Blob.
    """
    value = _fetch(str(name))
    if value is None:
        return f"{name}, a C++ native class of type nullptr (uninitialized).".encode()
    if isinstance(value, Int8Tensor):
        raise TypeError(f"Use FetchInt8Blob to fetch Int8 Blob {name}")
    return value


def _fetch(name: str) -> Array | Int8Tensor | bytes | None:
    """Copy a blob; None if it exists without a value."""
    try:
        return current().fetch(name)
    except NoBlobError:
        if current().has_blob(name):
            return None
        raise


def FetchBlobs(names: Iterable[object]) -> list[Array | bytes]:
    """Copy several blobs."""
    return [FetchBlob(name) for name in names]


def FetchInt8Blob(name: object) -> Int8Tensor:
    """Copy an Int8 blob: integers, scale and zero point. Raises RunError if the blob is not an Int8 tensor."""
    value = current().fetch(str(name))
    if not isinstance(value, Int8Tensor):
        raise RunError(f"blob {str(name)!r} is not an Int8 tensor")
    return value


def FetchInt8BlobRealVal(name: object) -> Array:
    """Return the dequantized values of an Int8 blob, float32."""
    blob = FetchInt8Blob(name)
    reals: Array = ((blob.data.astype("float32") - blob.zero_point) * blob.scale).astype("float32")
    return reals


def FetchTorch(name: object) -> Any:
    """Return a torch tensor with a copy of a blob's values; a blob on a GPU stays there and shares its memory.

    Raises RunError if torch is not installed or the blob is not a tensor of numbers.
    """
    try:
        import torch
    except ImportError:
        raise RunError("torch is not installed: pip install torch") from None
    value = current().fetch(str(name), on_device=True)
    if isinstance(value, DeviceTensor):
        return torch.utils.dlpack.from_dlpack(value)
    if not isinstance(value, np.ndarray) or value.dtype == object:
        raise RunError(f"blob {str(name)!r} is not a tensor of numbers, so torch cannot hold it")
    return torch.from_numpy(value)


def FeedTorch(name: object, tensor: Any) -> bool:
    """Set a blob to a torch tensor: one on the host is copied, one on a GPU shares its memory."""
    return FeedBlob(name, tensor)


def Blobs() -> list[str]:
    """Return the names of all blobs."""
    return current().blobs()


def HasBlob(name: object) -> bool:
    """Whether a blob exists, with or without a value."""
    return current().has_blob(str(name))


def CreateBlob(name: object) -> bool:
    """Create a blob without a value; one that exists keeps its value."""
    current().create_blob(str(name))
    return True


def ResetBlob(name: object) -> bool:
    """Remove the value of a blob, which exists without one afterwards. Raises NoBlobError if it does not exist."""
    if not HasBlob(name):
        raise NoBlobError(f"the workspace has no blob {str(name)!r}")
    current().remove_blob(str(name))
    return CreateBlob(name)


def RemoveBlob(name: object) -> bool:
    """Remove a blob; return whether it existed."""
    return current().remove_blob(str(name))


def SerializeBlob(name: object) -> bytes:
    """Serialize a blob as a BlobProto, byte for byte as Caffe2 does.

    Raises NoBlobError if it does not exist or has no value, RunError if Caffe2 does not serialize its kind.
    """
    return serialize_blob(current(), str(name))


def DeserializeBlob(name: object, content: bytes) -> None:
    """Set a blob to the value in a serialized BlobProto, whatever name that has.

    Raises NetFormatError if ``content`` is not a BlobProto of a known type.
    """
    deserialize_blob(current(), str(name), content)


_STRING_BYTES = 8  # the size that Caffe2 counts for the object of a string, beside its characters


def GetBlobSizeBytes(name: object) -> int:
    """Return the size of a tensor's elements in bytes; 0 for a text, an Int8 tensor, and a blob without a value.

    A string counts its characters and 8 bytes. Raises NoBlobError if the blob does not exist.
    """
    value = _fetch(str(name))
    if not isinstance(value, np.ndarray):
        return 0
    if value.dtype == object:
        return sum(len(text) + _STRING_BYTES for text in value.reshape(-1).tolist())
    return int(value.nbytes)


class BlobDict:
    """The blobs of the current workspace as a mapping: reading fetches, writing feeds."""

    def __getitem__(self, name: object) -> Array | bytes:
        """Fetch a blob, as :func:`FetchBlob`."""
        return FetchBlob(name)

    def __setitem__(self, name: object, value: Any) -> None:
        """Feed a blob, as :func:`FeedBlob`."""
        FeedBlob(name, value)

    def __len__(self) -> int:
        """Return the number of blobs."""
        return len(Blobs())

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(Blobs())

    def __contains__(self, name: object) -> bool:
        """Whether a blob exists."""
        return HasBlob(name)


blobs = BlobDict()
