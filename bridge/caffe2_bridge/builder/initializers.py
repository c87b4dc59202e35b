"""Initializers of parameters: the operators that fill them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.init.fill_nets import fill_operators
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.parameters import NUMBERS, Parameter
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, OperatorDef


@dataclass(frozen=True)
class Initializer:
    """A fill operator: its type, and its arguments except ``shape``."""

    type: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def operators(self, name: str, shape: Sequence[int], seed: int, device: DeviceOption | None) -> list[OperatorDef]:
        """Make the operators that fill a parameter; random ones are seeded by ``seed`` and the name."""
        option = DeviceOption()
        if device is not None:
            option.CopyFrom(device)
        option.random_seed = zlib.crc32(f"{seed}/{name}".encode())
        args = {"shape": [int(size) for size in shape], **self.args}
        return [make_operator(self.type, (), (name,), args, device_option=option)]


@dataclass(frozen=True, eq=False)
class Given(Initializer):
    """Given values, of a dtype that an init net can store."""

    type: str = "GivenTensorFill"
    values: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.float32), repr=False)

    def operators(self, name: str, shape: Sequence[int], seed: int, device: DeviceOption | None) -> list[OperatorDef]:
        """Make the operators that fill the parameter with the values; the seed is ignored.

        Raises BuildError if the shape differs from that of the values, or Caffe2 cannot fill their dtype.
        """
        del seed
        values = self.values
        if values.shape != tuple(shape):
            raise BuildError(
                f"the values of parameter {name!r} must have shape {list(shape)}, not {list(values.shape)}"
            )
        if values.dtype not in NUMBERS:
            raise BuildError(f"parameter {name!r} is {values.dtype.name}, an element type that Caffe2 does not have")
        parameter = Parameter(name, values.dtype, values.shape, lambda: values, None, None, device)
        return [OperatorDef.FromString(bytes(op)) for op in fill_operators(parameter)]


def constant(value: float, dtype: int | None = None) -> Initializer:
    """Return an initializer with one value; ``dtype`` is a TensorProto.DataType, float32 by default."""
    return Initializer("ConstantFill", MappingProxyType({"value": value, "dtype": dtype}))


def uniform(low: float, high: float) -> Initializer:
    """Return an initializer with uniform values in [low, high)."""
    return Initializer("UniformFill", MappingProxyType({"min": float(low), "max": float(high)}))


def gaussian(std: float = 1.0, mean: float = 0.0) -> Initializer:
    """Return an initializer with normally distributed values."""
    return Initializer("GaussianFill", MappingProxyType({"mean": float(mean), "std": float(std)}))


def given(values: npt.ArrayLike) -> Given:
    """Return an initializer with given values; floats that are not in an array become float32."""
    array = np.asarray(values)
    return Given(
        values=array if isinstance(values, np.ndarray) or array.dtype.kind != "f" else array.astype(np.float32)
    )


XAVIER: Final = Initializer("XavierFill", MappingProxyType({}))
ZEROS: Final = constant(0.0)
ONES: Final = constant(1.0)
