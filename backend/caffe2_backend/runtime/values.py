"""Values of a workspace: host arrays, Int8 tensors, device tensors, texts, and objects that are not tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.netdef.parameters import Array, Int8Tensor
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

__all__ = [
    "Array",
    "DeviceTensor",
    "HostObject",
    "Int8Tensor",
    "NoBlobError",
    "Opaque",
    "Tensor",
    "Value",
    "string_bytes",
    "text_bytes",
    "to_host",
]


class DeviceTensor:
    """A tensor on a device; ``ort`` is onnxruntime's value.

    Other libraries share its memory by DLPack, without a copy: ``torch.from_dlpack(tensor)``.
    """

    __slots__ = ("__weakref__", "device", "dtype", "ndim", "ort")

    def __init__(self, ort: Any, device: str) -> None:
        self.ort = ort
        self.device = device
        self.dtype = _numpy_dtype(ort.element_type())
        self.ndim = len(ort.shape())

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims."""
        return tuple(self.ort.shape())

    def numpy(self) -> Array:
        """Copy to the host."""
        return np.asarray(self.ort.numpy())

    def __dlpack__(self, **_: Any) -> Any:
        # The stream that the other library works on does not matter: the run that made the tensor has ended.
        return self.ort.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, device = self.ort.__dlpack_device__()
        return kind, device

    def __repr__(self) -> str:
        return f"DeviceTensor({self.dtype}{list(self.shape)} on {self.device})"


def _numpy_dtype(element_type: int) -> np.dtype[Any]:
    import onnx_ir as ir

    return ir.DataType(element_type).numpy()


class HostObject:
    """A blob that is not a tensor: an object with an identity, on which host operators work.

    ``type_name`` is the C++ type of such a blob in Caffe2. ``readers`` are the operators of converted nets that
    take any object of this type, and ``maker_type`` the operator that makes it there.
    """

    type_name: str = ""
    readers: ClassVar[frozenset[str]] = frozenset()
    maker_type: ClassVar[str] = ""

    @property
    def description(self) -> str:
        """What it is, for messages."""
        return f"a {self.type_name}"


@dataclass(frozen=True, eq=False)
class Opaque(HostObject):
    """An object that is made anew wherever it is read, such as a stack of workspaces, by the operator ``maker``."""

    maker: OperatorDef = field(repr=False)

    @property
    def description(self) -> str:
        """The operator that makes it, for messages."""
        return f"an object of {self.maker.type}"


Tensor = Array | Int8Tensor | DeviceTensor
Value = Tensor | bytes | HostObject


class NoBlobError(RunError, KeyError):
    """The blob does not exist."""

    def __str__(self) -> str:
        return BridgeError.__str__(self)


def to_host(value: Tensor) -> Array:
    """Return the elements as a host array; the integers of an Int8 tensor."""
    if isinstance(value, DeviceTensor):
        return value.numpy()
    return value.data if isinstance(value, Int8Tensor) else value


def string_bytes(array: Array) -> Array:
    """Convert a string tensor to objects of type bytes, as Caffe2 returns it."""
    out = np.empty(array.size, object)
    out[:] = [text_bytes(item) for item in array.reshape(-1).tolist()]
    return out.reshape(array.shape)


def text_bytes(item: str | bytes) -> bytes:
    """Return the bytes of an element of a string tensor; those that are not UTF-8 text are surrogates in a str."""
    return item.encode(errors="surrogateescape") if isinstance(item, str) else item
