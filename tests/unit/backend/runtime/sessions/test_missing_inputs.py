"""Inputs that a run lacks, and names that are not inputs, each reported at once; descriptions of inputs as text."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2_backend.input_text import Spec, parse_input
from caffe2_backend.runtime.sessions.missing_inputs import (
    missing_inputs,
    onnx_type_text,
    require_inputs,
    require_mapping,
)
from caffe2_bridge.diagnostics import RunError


def test_missing_inputs_with_what_is_known() -> None:
    assert str(missing_inputs(["x"], {})) == "input 'x' is not given"
    assert str(missing_inputs(["x", "n"], {"n": "int32[N]"})) == "inputs 'x', 'n' are not given (n: int32[N])"


def test_names_that_do_not_exist() -> None:
    require_inputs(["data", "fc_w"], ["data"], ["fc_w"])
    with pytest.raises(RunError, match=r"input 'fc_W' does not exist: the model has the inputs 'fc_w', 'data'"):
        require_inputs(["fc_W", "data"], ["data"], ["fc_w", "conv_b"])
    with pytest.raises(RunError, match=r"inputs 'a', 'b' do not exist: the model has no inputs"):
        require_inputs(["a", "b"], [])


def test_inputs_without_names() -> None:
    require_mapping({"x": 1}, ["x"], dict)
    said = r"from names to arrays, such as \{'x': array\}, not list: the model has the inputs x: float32\[N,3\], n$"
    with pytest.raises(RunError, match=said):
        require_mapping([1], ["x", "n"], lambda: {"x": "float32[N,3]"})
    with pytest.raises(RunError, match=r"such as \{\}, not ndarray: the model has no inputs"):
        require_mapping(np.zeros(2), [], dict)
    with pytest.raises(RunError, match=r"x19 and 1 more$"):
        require_mapping((), [f"x{i}" for i in range(21)], dict)


def test_types_of_sessions() -> None:
    assert onnx_type_text("tensor(float)", ["N", 3, None]) == "float32[N,3,?]"
    assert onnx_type_text("tensor(int64)", None) == "int64"


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x=float32[T, N,256]", ("float32", ["T", "N", 256])),
        ("x=[N,?,*]", (None, ["N", None, None])),
        ("x=int64", ("int64", None)),
        ("x=int64[]", ("int64", [])),
        ("x=uint8[N,3]@0.05,128", ("uint8", ["N", 3], (0.05, 128))),
        ("x=[2]@1e-3,0", (None, [2], (1e-3, 0))),
    ],
)
def test_descriptions(text: str, spec: Spec) -> None:
    assert parse_input(text) == ("x", spec)


def test_names_may_hold_equals_signs() -> None:
    assert parse_input("a=b=float32[1]") == ("a=b", ("float32", [1]))


@pytest.mark.parametrize("text", ["x", "=float32", "x=float32[N", "x=[N]@0.5", "x=float 32"])
def test_other_forms(text: str) -> None:
    assert parse_input(text) is None
