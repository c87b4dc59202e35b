"""Fields in protobuf's wire format as other writers write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2_bridge.wire.fields import FIXED32, FIXED64


def encode_fixed(number: int, values: np.ndarray[Any, Any]) -> bytes:
    """Encode float32 or float64 values as a repeated field that is not packed."""
    rows = np.empty(values.size, [("tag", "u1"), ("value", values.dtype.newbyteorder("<"))])
    rows["tag"] = number << 3 | (FIXED32 if values.dtype.itemsize == 4 else FIXED64)
    rows["value"] = values.reshape(-1)
    return rows.tobytes()
