"""What parameters start from: the operators that fill them."""

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
    """A fill operator: its type, and its arguments beside ``shape``."""

    type: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def operators(self, name: str, shape: Sequence[int], seed: int, device: DeviceOption | None) -> list[OperatorDef]:
        """The operators that make the parameter ``name``. Random ones draw from a seed of ``seed`` and the name."""
        option = DeviceOption()
        if device is not None:
            option.CopyFrom(device)
        option.random_seed = zlib.crc32(f"{seed}/{name}".encode())
        args = {"shape": [int(size) for size in shape], **self.args}
        return [make_operator(self.type, (), (name,), args, device_option=option)]


@dataclass(frozen=True, eq=False)
class Given(Initializer):
    """Values given as an array, of a dtype that an init net can hold."""

    type: str = "GivenTensorFill"
    values: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.float32), repr=False)

    def operators(self, name: str, shape: Sequence[int], seed: int, device: DeviceOption | None) -> list[OperatorDef]:
        """See Initializer; the seed plays no part."""
        del seed
        values = self.values
        if values.shape != tuple(shape):
            raise BuildError(f"parameter {name!r} has the shape {list(shape)}, its values {list(values.shape)}")
        if values.dtype not in NUMBERS:
            raise BuildError(f"parameter {name!r}: no operator of Caffe2 fills {values.dtype.name}")
        parameter = Parameter(name, values.dtype, values.shape, lambda: values, None, None, device)
        return [OperatorDef.FromString(op) for op in fill_operators(parameter)]


def constant(value: float, dtype: int | None = None) -> Initializer:
    """One value everywhere; ``dtype`` is a number of TensorProto.DataType, float32 where it is None."""
    return Initializer("ConstantFill", MappingProxyType({"value": value, "dtype": dtype}))


def uniform(low: float, high: float) -> Initializer:
    """Uniform between ``low`` and ``high``."""
    return Initializer("UniformFill", MappingProxyType({"min": float(low), "max": float(high)}))


def gaussian(std: float = 1.0, mean: float = 0.0) -> Initializer:
    """Normally distributed."""
    return Initializer("GaussianFill", MappingProxyType({"mean": float(mean), "std": float(std)}))


def given(values: npt.ArrayLike) -> Given:
    """These values. Floats that come in no array are float32."""
    array = np.asarray(values)
    return Given(
        values=array if isinstance(values, np.ndarray) or array.dtype.kind != "f" else array.astype(np.float32)
    )


XAVIER: Final = Initializer("XavierFill", MappingProxyType({}))
ZEROS: Final = constant(0.0)
ONES: Final = constant(1.0)
