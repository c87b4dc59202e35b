"""Requests of the Open Inference Protocol (version 2), which Triton and KServe answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from caffe2_backend.runtime.values import Array
from caffe2_deploy.contents import Port

# As the protocol names the element types.
_TYPES: Final = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "string": "BYTES",
}  # fmt: skip


def message(kind: str, ports: Iterable[Port], values: Mapping[str, Array]) -> str:
    """Return the body of a request (``inputs``) or of a response (``outputs``), as JSON."""
    tensors = [
        {
            "name": port.name,
            "shape": list(values[port.name].shape),
            "datatype": _TYPES[port.dtype],
            "data": [_plain(value) for value in values[port.name].ravel().tolist()],
        }
        for port in ports
        if port.name in values
    ]
    return json.dumps({kind: tensors}) + "\n"


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
