"""Values that are fed: arrays, numbers, texts and tensors of other libraries, converted to values of a workspace."""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.memory import lack_of_memory
from caffe2_backend.runtime.sessions.onnxruntime_library import from_dlpack
from caffe2_backend.runtime.values import Array, DeviceTensor, HostObject, Int8Tensor, Tensor, Value
from caffe2_bridge.diagnostics import RunError

_DLPACK_HOST: Final = (1, 3, 11)  # plain, pinned by CUDA, pinned by ROCm
_DLPACK_CUDA: Final = (2, 13)
_STRING_KINDS: Final = frozenset("OSU")
_LARGEST: Final = 8  # bytes of an element; NumPy's longdouble has more


def as_value(name: str, given: Any, *, copy: bool) -> Value:
    """Convert a fed value to the form in which a workspace holds it.

    Args:
        name: the blob, for errors.
        given: an array, a number or a list of them, an Int8Tensor, a text, a DeviceTensor, or any object with DLPack,
            such as a torch tensor; one on a GPU stays there and shares its memory.
        copy: whether a host array is copied, so that later changes of it have no effect.

    Raises RunError for any other object, and where there is not enough memory.
    """
    try:
        return _as_value(name, given, copy=copy)
    except MemoryError as error:
        raise lack_of_memory(f"blob {name!r}", error) from error


def _as_value(name: str, given: Any, *, copy: bool) -> Value:
    if isinstance(given, np.ndarray):
        return _array(name, given, copy=copy)
    if isinstance(given, Int8Tensor):
        return _int8(name, given, copy=copy)
    if isinstance(given, DeviceTensor | HostObject | bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if hasattr(given, "__dlpack_device__"):
        return _from_dlpack(name, given, copy=copy)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise RunError(f"blob {name!r}: {type(given).__name__} is not a tensor: {error}") from None
    if array.dtype.kind == "O":
        raise RunError(f"blob {name!r}: {type(given).__name__} is not a tensor")
    return _array(name, array, copy=copy)  # what has a buffer, or __array__, may share its memory with it


def _int8(name: str, given: Int8Tensor, *, copy: bool) -> Int8Tensor:
    """Return a quantized tensor with plain data and numbers. Raises RunError unless they are those of one."""
    data = _as_value(name, given.data, copy=copy)
    if not (isinstance(data, np.ndarray) and data.dtype in (np.uint8, np.int8, np.int32)):
        raise RunError(f"blob {name!r}: the data of an Int8Tensor must be uint8, int8 or int32")
    try:
        scale, zero_point = float(given.scale), operator.index(given.zero_point)
    except TypeError:
        numbers = f"{given.scale!r} and {given.zero_point!r}"
        raise RunError(
            f"blob {name!r}: the scale of an Int8Tensor must be a number, its zero point an integer, not {numbers}"
        ) from None
    return Int8Tensor(data, scale, zero_point)


def _array(name: str, array: Array, *, copy: bool) -> Array:
    if np.ma.is_masked(array):
        raise RunError(f"blob {name!r}: a tensor has no masked elements: fill them, as array.filled(0) does")
    if array.dtype.kind in _STRING_KINDS:
        return _strings(name, array)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > _LARGEST:
        raise RunError(f"blob {name!r}: a tensor cannot hold {array.dtype}")
    plain = np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=copy or None, ndmin=array.ndim)
    return plain.view(np.ndarray)


def _strings(name: str, array: Array) -> Array:
    """Return a string tensor: an array of objects of type str, as onnxruntime takes them if they are UTF-8 text."""
    out = np.empty(array.size, object)
    for i, item in enumerate(array.reshape(-1).tolist()):
        try:
            out[i] = item if isinstance(item, str) else str(item, errors="surrogateescape")
        except TypeError as error:
            raise RunError(f"blob {name!r}: element {i} is not a string: {error}") from None
    return out.reshape(array.shape)


def _from_dlpack(name: str, given: Any, *, copy: bool) -> Tensor:
    """Return a tensor of another library; torch tensors are detached from the graph that records gradients."""
    if getattr(given, "requires_grad", False):
        given = given.detach()
    if hasattr(given, "resolve_neg"):
        given = given.resolve_neg()  # torch 2.13 exports a view that is negated when it is read, without the sign
    try:
        kind, index = given.__dlpack_device__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(f"blob {name!r}: {error}") from None
    if int(kind) in _DLPACK_HOST:
        try:
            return _array(name, np.from_dlpack(given), copy=copy)
        except (BufferError, RuntimeError, TypeError) as error:
            raise RunError(f"blob {name!r}: {error}") from None
    if int(kind) not in _DLPACK_CUDA:
        raise RunError(f"blob {name!r} is on a device that is neither the host nor CUDA (DLPack device {int(kind)})")
    whole = given.contiguous() if hasattr(given, "contiguous") else given
    return DeviceTensor(from_dlpack(whole), f"cuda:{index}")
