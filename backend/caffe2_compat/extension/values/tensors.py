"""Tensors, as objects that refer to the elements in a blob."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from caffe2_backend.runtime.values import Array, string_bytes
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.parameters import NUMBERS

__all__ = ["DLPackTensorCPU", "DLPackTensorCUDA", "TensorCPU"]

_DTYPES = {int(data_type): dtype for dtype, data_type in NUMBERS.items() if dtype.kind in "biuf"}


class Elements(Protocol):
    """Where a tensor's elements are."""

    def load(self) -> Array:
        """Return the elements themselves."""
        ...

    def store(self, array: Array) -> None:
        """Replace the elements."""
        ...

    def torch_tensor(self) -> Any:
        """Return a torch tensor that shares the elements."""
        ...


class TensorCPU:
    """The tensor in a blob. ``shape``, ``reshape`` and ``to_torch`` are added by Caffe2's Python."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements

    @property
    def data(self) -> Array:
        """The elements themselves: changes of this array change the blob. Those of a string tensor are a copy."""
        array = self._elements.load()
        return string_bytes(array) if array.dtype == object else array

    @property
    def _shape(self) -> list[int]:
        return list(self._elements.load().shape)

    def feed(self, value: Any) -> None:
        """Copy an array into the tensor."""
        self._elements.store(np.array(value))

    def fetch(self) -> Array:
        """Copy the elements."""
        return np.array(self.data)

    def init(self, shape: Sequence[int], data_type: int) -> None:
        """Make the tensor one of a shape and TensorProto.DataType. Raises RunError for types that Python cannot see."""
        if data_type not in _DTYPES:
            raise RunError(f"tensors of data type {data_type} cannot be accessed from Python")
        self._elements.store(np.zeros(list(shape), _DTYPES[data_type]))

    def _reshape(self, shape: Sequence[int]) -> None:
        """Change the shape; the elements stay where their number does."""
        array = self._elements.load()
        fits = array.size == int(np.prod(shape, dtype=np.int64))
        self._elements.store(array.reshape(shape) if fits else np.zeros(list(shape), array.dtype))

    def _tensor_impl_raw_handle(self) -> Any:
        # The rewrites take a torch tensor in place of a handle.
        return self._elements.torch_tensor()


class DLPackTensorCPU(TensorCPU):
    """A tensor whose data is a DLPack capsule."""

    @property
    def data(self) -> Any:
        """A DLPack capsule that shares the elements."""
        return self._elements.load().__dlpack__()


class DLPackTensorCUDA(DLPackTensorCPU):
    """The same on a GPU."""
