"""Kinds of inputs: what decides whether a converted net can be used again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.values import DeviceTensor, HostObject, Int8Tensor, Opaque, Value
from caffe2_frontend.interop.types import TensorInfo, tensor_info

Signature = tuple[Any, ...]
# NumPy has two 64-bit integer types on most platforms, equal but for these characters; onnxruntime returns the second.
_CHARACTERS: Final = {"q": np.dtype(np.int64).char, "Q": np.dtype(np.uint64).char}


def signature_of(names: Sequence[str], given: Mapping[str, Value], *, sized: Mapping[str, int]) -> Signature:
    """Return element types, devices, ranks and known sizes of the inputs.

    Args:
        names: the inputs.
        given: their values.
        sized: by input, the first axis of those whose sizes are known to the conversion.
    """
    parts: list[Any] = []
    for name in names:
        value = given.get(name)
        if isinstance(value, Int8Tensor):
            data = value.data
            extent = extent_of(data.shape, sized.get(name))
            parts += (Int8Tensor, data.dtype, extent, value.scale, value.zero_point)
        elif isinstance(value, np.ndarray):
            dtype = value.dtype  # hashing a dtype takes longer than hashing these parts of it
            char = dtype.char
            extent = extent_of(value.shape, sized.get(name))
            parts += (_CHARACTERS.get(char, char), dtype.byteorder, extent)
        elif isinstance(value, DeviceTensor):
            parts += (value.device, value.dtype, extent_of(value.shape, sized.get(name)))
        else:
            parts.append(value.maker.type if isinstance(value, Opaque) else None)
    return tuple(parts)


def extent_of(shape: tuple[int, ...], first: int | None) -> Any:
    """Return the rank, the shape if ``first`` is 0, or the rank and the sizes from the axis ``first`` on."""
    if first is None:
        return len(shape)
    return (len(shape), shape[first:]) if first else shape


def describe_inputs(
    names: Sequence[str], given: Mapping[str, Value], *, sized: Mapping[str, int]
) -> dict[str, TensorInfo]:
    """Describe the inputs as the exporter takes them, those in ``sized`` with their sizes from the given axis on.

    Objects are left out; values must not be texts.
    """
    infos = {}
    for name in names:
        value = given.get(name)
        if value is None or isinstance(value, HostObject):
            continue
        assert not isinstance(value, bytes)
        plain = value.data if isinstance(value, Int8Tensor) else value
        first = sized.get(name, plain.ndim)
        shape = [None if axis < first else dim for axis, dim in enumerate(plain.shape)]
        quantization = (value.scale, value.zero_point) if isinstance(value, Int8Tensor) else None
        infos[name] = tensor_info(name, (plain.dtype if plain.dtype != object else str, shape, quantization))
    return infos
