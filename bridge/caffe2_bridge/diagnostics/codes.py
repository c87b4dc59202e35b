"""The table of all diagnostic codes. ``docs/diagnostics.md`` is generated from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from caffe2_bridge.diagnostics.code import DiagnosticCode
from caffe2_bridge.diagnostics.device_codes import DEVICE_CODES
from caffe2_bridge.diagnostics.input_codes import INPUT_CODES
from caffe2_bridge.diagnostics.net_codes import NET_CODES
from caffe2_bridge.diagnostics.onnx_codes import ONNX_CODES
from caffe2_bridge.diagnostics.operator_codes import OPERATOR_CODES


def _table(codes: Iterable[DiagnosticCode]) -> Mapping[str, DiagnosticCode]:
    table: dict[str, DiagnosticCode] = {}
    for code in codes:
        if code.code in table:
            raise ValueError(f"diagnostic code {code.code!r} is defined twice")
        table[code.code] = code
    return MappingProxyType(dict(sorted(table.items())))


CODES: Final[Mapping[str, DiagnosticCode]] = _table(
    [*NET_CODES, *INPUT_CODES, *OPERATOR_CODES, *ONNX_CODES, *DEVICE_CODES]
)
