"""What a workspace holds: host arrays, Int8 tensors, tensors on a device, texts, and objects that are no tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

Array = npt.NDArray[Any]

_DLPACK_HOST: Final = (1, 3, 11)  # plain, pinned by CUDA, pinned by ROCm
_DLPACK_CUDA: Final = (2, 13)
_TEXT: Final = frozenset("OSU")


class Int8Tensor(NamedTuple):
    """Integers (uint8, or int32 for biases) that stand for reals: ``real = scale * (data - zero_point)``."""

    data: Array
    scale: float
    zero_point: int


class DeviceTensor:
    """A tensor on a device; ``ort`` is onnxruntime's value.

    Other libraries take it over by DLPack, without a copy: ``torch.from_dlpack(tensor)``.
    """

    __slots__ = ("device", "dtype", "ndim", "ort")

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
        """A copy on the host."""
        return np.asarray(self.ort.numpy())

    def __dlpack__(self, **_: Any) -> Any:
        # Whatever stream the other library works on: the run that made the tensor has ended.
        return self.ort.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, device = self.ort.__dlpack_device__()
        return kind, device

    def __repr__(self) -> str:
        return f"DeviceTensor({self.dtype}{list(self.shape)} on {self.device})"


@dataclass(frozen=True, eq=False)
class Opaque:
    """A blob that is no tensor, such as a stack of workspaces; ``maker`` is the operator that made it."""

    maker: OperatorDef = field(repr=False)


Tensor = Array | Int8Tensor | DeviceTensor
Value = Tensor | bytes | Opaque


def _numpy_dtype(element_type: int) -> np.dtype[Any]:
    import onnx_ir as ir

    return ir.DataType(element_type).numpy()


def as_value(name: str, given: Any, *, copy: bool) -> Value:
    """What is fed, as a workspace holds it.

    Args:
        name: the blob, for errors.
        given: an array, a number or a list of them, an Int8Tensor, a text, a DeviceTensor, or what speaks DLPack, such
            as a torch tensor; one on a GPU stays there and shares its memory.
        copy: whether an array of the host is copied, so that later changes of it do not show.

    Raises RunError where it is nothing of the kind.
    """
    if isinstance(given, np.ndarray):
        return _array(name, given, copy=copy)
    if isinstance(given, Int8Tensor):
        return Int8Tensor(_array(name, given.data, copy=copy), float(given.scale), int(given.zero_point))
    if isinstance(given, DeviceTensor | Opaque | bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if hasattr(given, "__dlpack_device__"):
        return _from_dlpack(name, given, copy=copy)
    array = np.asarray(given)
    if array.dtype.kind == "O":
        raise RunError(f"blob {name!r}: {type(given).__name__} is no tensor")
    return _array(name, array, copy=False)


def _array(name: str, array: Array, *, copy: bool) -> Array:
    if array.dtype.kind in _TEXT:
        return _texts(name, array)
    if array.dtype.kind not in "biuf":
        raise RunError(f"blob {name!r}: a tensor cannot hold {array.dtype}")
    plain = np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=copy or None, ndmin=array.ndim)
    return plain.view(np.ndarray)


def _texts(name: str, array: Array) -> Array:
    """A string tensor: an array of objects that are str, as onnxruntime takes them."""
    out = np.empty(array.size, object)
    for i, item in enumerate(array.reshape(-1).tolist()):
        try:
            out[i] = item if isinstance(item, str) else bytes(item).decode()
        except (UnicodeDecodeError, TypeError) as error:
            raise RunError(f"blob {name!r}: element {i} is no UTF-8 text: {error}") from None
    return out.reshape(array.shape)


def _from_dlpack(name: str, given: Any, *, copy: bool) -> Tensor:
    """A tensor of another library. torch's are taken off the graph that records gradients."""
    if getattr(given, "requires_grad", False):
        given = given.detach()
    kind, index = given.__dlpack_device__()
    if int(kind) in _DLPACK_HOST:
        try:
            return _array(name, np.from_dlpack(given), copy=copy)
        except (BufferError, RuntimeError, TypeError) as error:
            raise RunError(f"blob {name!r}: {error}") from None
    if int(kind) not in _DLPACK_CUDA:
        raise RunError(f"blob {name!r} lies on a device that is neither host nor CUDA (DLPack's number {int(kind)})")
    from caffe2_backend.runtime.sessions import from_dlpack

    whole = given.contiguous() if hasattr(given, "contiguous") else given
    return DeviceTensor(from_dlpack(whole), f"cuda:{index}")


def on_host(value: Tensor) -> Array:
    """The elements on the host; an Int8 tensor's are its integers."""
    if isinstance(value, DeviceTensor):
        return value.numpy()
    return value.data if isinstance(value, Int8Tensor) else value


def as_bytes(array: Array) -> Array:
    """A string tensor as Caffe2 gives it: objects that are bytes."""
    out = np.empty(array.size, object)
    out[:] = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
    return out.reshape(array.shape)


class NoBlobError(RunError, KeyError):
    """There is no such blob."""

    def __str__(self) -> str:
        return BridgeError.__str__(self)
