"""The values of blobs while a module runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from caffe2_bridge.netdef.parameters import Int8Tensor, Parameter
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_torch.evaluation.context import is_exporting
from caffe2_torch.functions.int8 import Quantized

DTYPES: Final[Mapping[int, torch.dtype]] = {
    TensorProto.FLOAT: torch.float32, TensorProto.INT32: torch.int32, TensorProto.BYTE: torch.uint8,
    TensorProto.BOOL: torch.bool, TensorProto.UINT8: torch.uint8, TensorProto.INT8: torch.int8,
    TensorProto.UINT16: torch.uint16, TensorProto.INT16: torch.int16, TensorProto.INT64: torch.int64,
    TensorProto.FLOAT16: torch.float16, TensorProto.DOUBLE: torch.float64,
}  # fmt: skip

# The strings of a string tensor: an array of dtype object that holds str.
Strings: TypeAlias = npt.NDArray[np.object_]


# None is an object that is no tensor, such as step workspaces.
Value: TypeAlias = torch.Tensor | Quantized | Strings | None


def value_of(given: Any, device: torch.device | None = None) -> Value:
    """Return what a module computes with, from what a caller gives: a tensor, an array, strings or an Int8Tensor."""
    if isinstance(given, Int8Tensor | Quantized):
        data, scale, zero_point = given
        return Quantized(torch.as_tensor(data, device=device), float(scale), int(zero_point))
    if isinstance(given, torch.Tensor):
        return given
    array = np.asarray(given)
    if array.dtype.kind in "OSU":
        return _strings(array)
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.as_tensor(array, device=device)


def value_of_parameter(parameter: Parameter) -> Value:
    """Return the value of a parameter of an init net."""
    array = parameter.load()
    if parameter.scale is not None:
        return value_of(Int8Tensor(array, parameter.scale, parameter.zero_point or 0))
    return value_of(array)


def result_of(value: Value) -> Any:
    """Return what a caller gets: a tensor, strings, or an Int8Tensor of a tensor."""
    return Int8Tensor(value.data, value.scale, value.zero_point) if isinstance(value, Quantized) else value  # type: ignore[arg-type] # a tensor in the place of an array


def sizes_tensor(sizes: Iterable[int], dtype: torch.dtype) -> torch.Tensor:
    """Return sizes as a tensor; those that are symbols of an exported program stay symbols.

    PyTorch 2.13: a scan with a constant tensor in its body is not decomposed, so none is recorded.
    """
    found = list(sizes)
    if not found or not is_exporting():
        return torch.tensor(found, dtype=dtype)
    return torch.stack([torch.scalar_tensor(size, dtype=dtype) for size in found])


def _strings(array: npt.NDArray[Any]) -> Strings:
    texts: Strings = np.empty(array.size, object)
    texts[:] = [item.decode("latin-1") if isinstance(item, bytes) else str(item) for item in array.ravel()]
    return texts.reshape(array.shape)
