"""What to type to describe an input, on the command line and in Python."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from caffe2_frontend import TensorInfo
from caffe2_frontend.interop.input_hint import input_hint, inputs_hint, usual_dims
from caffe2_frontend.interop.types import Quantization


@pytest.mark.parametrize(
    ("info", "hint"),
    [
        (TensorInfo(), "--input 'x=float32[N,D]', or inputs={'x': ('float32', ['N', 'D'])}"),
        (
            TensorInfo(ir.DataType.INT64, ("x_dim_0", 3, None)),
            "--input 'x=int64[N,3,H]', or inputs={'x': ('int64', ['N', 3, 'H'])}",
        ),
        (
            TensorInfo(ir.DataType.UINT8, (2,), Quantization(0.5, 128)),
            "--input 'x=uint8[2]@0.5,128', or inputs={'x': ('uint8', [2], (0.5, 128))}",
        ),
        (TensorInfo(ir.DataType.FLOAT, ()), "--input 'x=float32[]', or inputs={'x': ('float32', [])}"),
    ],
)
def test_hints(info: TensorInfo, hint: str) -> None:
    assert input_hint("x", info) == hint


def test_names_with_spaces_are_quoted_and_no_name_of_a_dim_is_used_twice() -> None:
    hint = inputs_hint({"a b": TensorInfo(ir.DataType.FLOAT, (None,)), "c": TensorInfo(ir.DataType.FLOAT, (None, "D"))})
    assert hint.startswith("--input 'a b=float32[N]' --input 'c=float32[?,D]', or inputs={'a b':")


def test_usual_names_of_dims() -> None:
    taken = {"D"}
    assert usual_dims([None, None, "T", None, None], taken) == ["N", None, "T", "W", None]
    assert taken == {"D", "N", "T", "W"}
