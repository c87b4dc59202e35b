"""What the operators of init nets make: one function a type, from its arguments to a tensor that is decoded later.

All of them answer exactly as Caffe2 does, dtype and shape included; random ones draw from the same distribution with
numpy's generator, the same values each time.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_bridge.fills import drawn, given
from caffe2_bridge.fills.base import Fill, Filled, FillError, FillOp, Values

__all__ = ["FILLS", "RANDOM", "Fill", "FillError", "FillOp", "Filled", "Values"]

FILLS: Final = MappingProxyType[str, Fill](
    {
        "ConstantFill": given.constant,
        "DiagonalFill": given.diagonal,
        "Float16ConstantFill": given.half_constant,
        "Float16UniformFill": drawn.half_uniform,
        "GaussianFill": drawn.gaussian,
        "GivenTensorBoolFill": given.given_of(np.bool_),
        "GivenTensorByteStringToUInt8Fill": given.byte_string,
        "GivenTensorDoubleFill": given.given_of(np.float64),
        "GivenTensorFill": given.given_tensor,
        "GivenTensorFp16Fill": given.given_of(np.float16),
        "GivenTensorInt16Fill": given.given_of(np.int16),
        "GivenTensorInt64Fill": given.given_of(np.int64),
        "GivenTensorIntFill": given.given_of(np.int32),
        "GivenTensorStringFill": given.given_of(object),
        "Int8GivenIntTensorFill": given.int8_given_int,
        "Int8GivenTensorFill": given.int8_given,
        "LengthsRangeFill": given.lengths_range,
        "MSRAFill": drawn.msra,
        "RangeFill": given.counting,
        "UniformFill": drawn.uniform,
        "UniformIntFill": drawn.uniform_int,
        "UniqueUniformFill": drawn.unique_uniform,
        "XavierFill": drawn.xavier,
    }
)
RANDOM: Final = frozenset(
    {
        "Float16UniformFill",
        "GaussianFill",
        "MSRAFill",
        "UniformFill",
        "UniformIntFill",
        "UniqueUniformFill",
        "XavierFill",
    }
)
