"""Sorting and indices of extremes."""

from __future__ import annotations

import pytest
from onnx import parser

from caffe2_backend.importer import to_netdef
from caffe2_bridge.diagnostics import ConversionError


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [-1, 2])
def test_keepdims_is_0_or_1(kind: str, keepdims: int) -> None:
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[3, 4] x) => (int64[] y) {{ y = {kind} <axis = 1'
    model = parser.parse_model(f"{text}, keepdims = {keepdims}> (x) }}")
    with pytest.raises(ConversionError, match=f"'keepdims' must be 0 or 1, not {keepdims}"):
        to_netdef(model)
