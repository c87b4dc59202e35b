"""Encoders of categories, against onnxruntime.

Modules: categories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession

CODES = np.array([[1, 3], [2, 9], [7, 1]])
WORDS = np.array([["red", "blue"], ["?", "red"]], object)
TENSORS = "keys_tensor = int64[2] {1, 3}, values_tensor = double[2] {0.5, 0.25}, default_tensor = double[1] {9.0}"
# Inputs, output, version of the domain, node, values of the input.
CASES: dict[str, tuple[str, str, int, str, Any]] = {
    "one-hot of integers": ("int64[A,B] x", "float", 1, "OneHotEncoder<cats_int64s = [1, 2, 3]>", CODES),
    "one-hot of floats": ("float[A,B] x", "float", 1, "OneHotEncoder<cats_int64s = [1, 2, 3]>", CODES.astype("f4")),
    "one-hot of strings": ("string[A,B] x", "float", 1, 'OneHotEncoder<cats_strings = ["red", "blue"]>', WORDS),
    "mapper to strings": (
        "int64[A,B] x", "string", 1,
        'CategoryMapper<cats_int64s = [1, 2, 3], cats_strings = ["a", "b", "c"], default_string = "none">', CODES,
    ),
    "mapper to integers": (
        "string[A,B] x", "int64", 1,
        'CategoryMapper<cats_int64s = [5, 6], cats_strings = ["red", "blue"], default_int64 = -7>', WORDS,
    ),
    "encoder of strings as strings": (
        "string[A,B] x", "string", 2,
        'LabelEncoder<keys_strings = ["red", "blue"], values_strings = ["rot", "blau"], default_string = "?">', WORDS,
    ),
    "encoder of integers as strings": (
        "int64[A,B] x", "string", 2, 'LabelEncoder<keys_int64s = [1, 2], values_strings = ["one", "two"]>', CODES,
    ),
    "encoder of tensors": (
        "int64[A,B] x", "double", 4,
        f"LabelEncoder<{TENSORS}>", CODES,
    ),
    "first encoder": ("string[A,B] x", "int64", 1, 'LabelEncoder<classes_strings = ["blue", "red"]>', WORDS),
}  # fmt: skip


def model_of(name: str) -> onnx.ModelProto:
    inputs, kind, version, node, _ = CASES[name]
    head = f'<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": {version}]>'
    return parser.parse_model(f"{head} g ({inputs}) => ({kind} y) {{ y = ai.onnx.ml.{node}(x) }}")


def check(actual: Any, wanted: Any, what: str) -> None:
    assert actual.shape == wanted.shape, what
    if wanted.dtype == object:
        assert actual.astype(str).tolist() == wanted.astype(str).tolist(), what
    else:
        np.testing.assert_array_equal(actual, wanted, err_msg=what)
        assert actual.dtype == wanted.dtype, what


@pytest.mark.parametrize("name", CASES)
def test_here(name: str) -> None:
    model, feed = model_of(name), {"x": CASES[name][-1]}
    (wanted,) = OnnxSession(model.SerializeToString()).run_values(feed)
    check(Predictor(to_netdef(model)).run(feed)["y"], wanted, name)


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    nets = [to_netdef(model_of(name)) for name in CASES]
    feeds = [{"x": case[-1]} for case in CASES.values()]
    runs = [OracleRun(net.predict_net, feed, net.init_net, ["y"]) for net, feed in zip(nets, feeds, strict=True)]
    for name, feed, result in zip(CASES, feeds, run_oracle(runs), strict=True):
        assert result.error == "", name
        (wanted,) = OnnxSession(model_of(name).SerializeToString()).run_values(feed)
        check(result.outputs["y"], wanted, name)
