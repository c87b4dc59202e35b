"""Options of an export are validated when they are constructed."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest

from caffe2_bridge.diagnostics import BridgeError, OptionError
from caffe2_frontend import ExportOptions, InputSpecError, TensorInfo


def test_inputs_are_described_in_one_form() -> None:
    info = TensorInfo(ir.DataType.INT32, (None,))
    options = ExportOptions(inputs={"x": ("float32", ["N", 2]), "n": info})
    assert options.described == {"x": TensorInfo(ir.DataType.FLOAT, ("N", 2)), "n": info}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"recurrent": "spiral"}, OptionError),
        ({"int8": "sometimes"}, OptionError),
        ({"fp16_io": "float64"}, OptionError),
        ({"opset": 0}, OptionError),
        ({"opset": 999}, OptionError),
        ({"inputs": {"x": "float32"}}, InputSpecError),
        ({"opset": "20"}, OptionError),
        ({"fp16": "no"}, OptionError),
        ({"outputs": "softmax"}, OptionError),
        ({"inputs": ["x"]}, InputSpecError),
        ({"inputs": {"x": ("float32", 3)}}, InputSpecError),
        ({"inputs": {"x": ("float32", "N3")}}, InputSpecError),
        ({"inputs": {"x": ("float32", [2**63])}}, InputSpecError),
        ({"inputs": {"x": ("float32", [True])}}, InputSpecError),
    ],
)
def test_options_that_are_not_supported(given: dict[str, Any], error: type[BridgeError]) -> None:
    with pytest.raises(error):
        ExportOptions(**given)
