"""The fills of init nets: a function for each operator type, from its arguments to a tensor that is decoded later.

Values, dtypes and shapes are exactly Caffe2's. Random fills draw from the same distribution as Caffe2, with numpy's
generator: the same values each time.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_bridge.init import constant_fills, random_fills
from caffe2_bridge.init.fill import Fill, Filled, FillError, FillOp, Values

__all__ = ["FILLS", "RANDOM", "Fill", "FillError", "FillOp", "Filled", "Values"]

FILLS: Final = MappingProxyType[str, Fill](
    {
        "ConstantFill": constant_fills.constant,
        "DiagonalFill": constant_fills.diagonal,
        "Float16ConstantFill": constant_fills.half_constant,
        "Float16UniformFill": random_fills.half_uniform,
        "GaussianFill": random_fills.gaussian,
        "GivenTensorBoolFill": constant_fills.given_of(np.bool_),
        "GivenTensorByteStringToUInt8Fill": constant_fills.byte_string,
        "GivenTensorDoubleFill": constant_fills.given_of(np.float64),
        "GivenTensorFill": constant_fills.given_tensor,
        "GivenTensorFp16Fill": constant_fills.given_of(np.float16),
        "GivenTensorInt16Fill": constant_fills.given_of(np.int16),
        "GivenTensorInt64Fill": constant_fills.given_of(np.int64),
        "GivenTensorIntFill": constant_fills.given_of(np.int32),
        "GivenTensorStringFill": constant_fills.given_of(object),
        "Int8GivenIntTensorFill": constant_fills.int8_given_int,
        "Int8GivenTensorFill": constant_fills.int8_given,
        "LengthsRangeFill": constant_fills.lengths_range,
        "MSRAFill": random_fills.msra,
        "RangeFill": constant_fills.range_fill,
        "UniformFill": random_fills.uniform,
        "UniformIntFill": random_fills.uniform_int,
        "UniqueUniformFill": random_fills.unique_uniform,
        "XavierFill": random_fills.xavier,
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
