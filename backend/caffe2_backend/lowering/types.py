"""Element types of Caffe2's tensors, and which of them its operators compute with."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.interop.types import BOOL, CAFFE2_TO_ONNX, DOUBLE, FLOAT, FLOAT16, INT32, INT64, UINT8

STRING: Final = ir.DataType.STRING
UNDEFINED: Final = ir.DataType.UNDEFINED

# Caffe2's number of each element type that it has tensors of. (BYTE, a synonym of UINT8, comes first in the other map.)
CAFFE2_TYPES: Final = {dtype: number for number, dtype in CAFFE2_TO_ONNX.items()}
# The types that most operators of Caffe2 compute with.
NUMBERS: Final = (FLOAT, DOUBLE, INT32, INT64)
# Integer types that int32 holds exactly: arithmetic on them is done in int32.
NARROW: Final = (ir.DataType.INT8, UINT8, ir.DataType.INT16, ir.DataType.UINT16)
# Types whose every value float holds exactly.
HELD_BY_FLOAT: Final = (FLOAT, FLOAT16, BOOL, *NARROW)
# Unsigned integers that Caffe2 has no tensors of, and the signed ones of the same bits.
UNSIGNED: Final = {ir.DataType.UINT32: INT32, ir.DataType.UINT64: INT64}
# Types that Caffe2 has no tensors of, and the types of their bits, in which the strict target stores them.
STORED_AS: Final = {
    **dict.fromkeys((
        ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E4M3FNUZ, ir.DataType.FLOAT8E5M2, ir.DataType.FLOAT8E5M2FNUZ,
        ir.DataType.FLOAT4E2M1, ir.DataType.UINT4, ir.DataType.UINT2,
    ), UINT8),
    **dict.fromkeys((ir.DataType.INT4, ir.DataType.INT2), ir.DataType.INT8),
    ir.DataType.BFLOAT16: ir.DataType.UINT16,
    **UNSIGNED,
}  # fmt: skip
# Types that few operators of Caffe2 compute with, and the type that holds their values exactly.
WIDER: Final = {FLOAT16: FLOAT, **dict.fromkeys(NARROW, INT32), ir.DataType.UINT32: INT64}
