"""Decode and encode arrays in protobuf's wire format, vectorized; :mod:`caffe2_bridge.wire.write` encodes them."""

from caffe2_bridge.wire.arrays import (
    FLOATS,
    INTS,
    STRING,
    STRINGS,
    count_fixed,
    count_varints,
    fixed,
    scalar_array,
    varints,
)
from caffe2_bridge.wire.fields import FIXED32, LEN, VARINT, Field, WireError, fields, payloads, split
from caffe2_bridge.wire.spans import Buffer, Span

__all__ = [
    "FIXED32",
    "FLOATS",
    "INTS",
    "LEN",
    "STRING",
    "STRINGS",
    "VARINT",
    "Buffer",
    "Field",
    "Span",
    "WireError",
    "count_fixed",
    "count_varints",
    "fields",
    "fixed",
    "payloads",
    "scalar_array",
    "split",
    "varints",
]
