"""Parameters of models: name, dtype and shape, and values that are decoded on demand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.diagnostics.printable import printable
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, TensorProto

Array = npt.NDArray[Any]

_LISTED: Final = 8  # names in the text of an Arrays

# The numpy dtype of each Caffe2 tensor type. Strings are bytes objects; BYTE is the older name of UINT8.
DTYPES: Final[dict[int, np.dtype[Any]]] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.BYTE: np.dtype(np.uint8),
    TensorProto.STRING: np.dtype(object),
    TensorProto.BOOL: np.dtype(np.bool_),
    TensorProto.UINT8: np.dtype(np.uint8),
    TensorProto.INT8: np.dtype(np.int8),
    TensorProto.UINT16: np.dtype(np.uint16),
    TensorProto.INT16: np.dtype(np.int16),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.DOUBLE: np.dtype(np.float64),
}

# The Caffe2 tensor type of each numpy dtype.
NUMBERS: Final = {
    DTYPES[kind]: kind
    for kind in TensorProto.DataType.values()
    if kind in DTYPES and kind != TensorProto.BYTE  # UINT8's older name
}


class Int8Tensor(NamedTuple):
    """A quantized tensor, as Caffe2's workspace represents it: ``real = scale * (data - zero_point)``.

    ``data`` is uint8, or int32 for a bias.
    """

    data: Array
    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A tensor of an init net or a database, not decoded yet.

    Attributes:
        name: the blob's name.
        dtype: the element type; ``object`` for strings, whose elements are ``bytes``.
        shape: the shape.
        make: decodes the values.
        scale: the scale of an Int8 tensor, which holds uint8 (int32 for a bias) with
            ``real = scale * (data - zero_point)``; None for any other tensor.
        zero_point: the zero point of an Int8 tensor; None for any other tensor.
        device: the device option of the operator that writes the tensor; None if it has none.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    make: Callable[[], Array] = field(repr=False)
    scale: float | None = None
    zero_point: int | None = None
    device: DeviceOption | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        # The values go along, and not where they are read from.
        known = (self.name, self.dtype, self.shape, partial(_same, self.load()))
        return Parameter, (*known, self.scale, self.zero_point, self.device)

    def load(self) -> Array:
        """Decode the values into a new array of ``dtype`` and ``shape``; each call decodes again.

        Raises NetFormatError if the stored bytes are damaged, BridgeError if there is not enough memory.
        """
        try:
            return self.make()
        except MemoryError:
            bytes_ = self.size * self.dtype.itemsize
            raise BridgeError(f"there is not enough memory for parameter {self.name!r} of {bytes_:,} bytes") from None


def _same(values: Array) -> Array:
    """Return a copy, as each call of ``make`` gives a new array."""
    return values.copy()


class Arrays(Mapping[str, Array]):
    """A mapping from the names of parameters to their arrays. Each access decodes the array again."""

    __slots__ = ("_parameters",)

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = parameters

    def __getitem__(self, name: str) -> Array:
        return self._parameters[name].load()

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __reduce__(self) -> tuple[type[Arrays], tuple[dict[str, Parameter]]]:
        return Arrays, (dict(self._parameters),)

    def __repr__(self) -> str:
        return f"Arrays({printable(listed(list(self._parameters), _LISTED, str))})"
