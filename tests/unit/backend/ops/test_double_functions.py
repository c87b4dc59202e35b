"""Exponentials and logarithms of doubles, which Caffe2 computes of float only, against NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge.model import Model

TINY, LARGE = np.finfo(np.float64).tiny, np.finfo(np.float64).max
ANY: Final = np.array([
    0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 1e-9, -1e-9, 0.34, 0.3466, 3.5, -7.25, 20.0, -20.5, 88.8, 300.25, -300.0, 709.7,
    -709.0, -740.0, -745.0, 711.0, -800.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 1e-300,
])  # fmt: skip
POSITIVE: Final = np.array([
    0.0, 5e-324, TINY, TINY / 3, 1e-200, 1e-40, 1e-9, 0.3, 0.93, 0.95, 1 - 1e-9, 1.0, 1 + 1e-9, 1.06, 1.07, 2.0, np.e,
    10.0, 1e30, 1e45, 1e300, LARGE, np.inf, np.nan, -1.0, -np.inf,
])  # fmt: skip
FUNCTIONS: Final[dict[str, tuple[np.ndarray[Any, Any], Callable[[Any], Any]]]] = {
    "Exp": (ANY, np.exp),
    "Log": (POSITIVE, np.log),
    "Sigmoid": (ANY[ANY != -800], lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": (ANY, np.tanh),
    "Sqrt": (POSITIVE, np.sqrt),
    "Floor": (np.append(ANY, [2.5**60, -(2.0**53) - 2, 2.0**53 - 0.5]), np.floor),
    "Ceil": (np.append(ANY, [2.5**60, 4503599627370497.5]), np.ceil),
    "Reciprocal": (ANY, lambda x: 1 / x),
    "Softmax": (ANY[:16], lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum()),
    "LogSoftmax": (ANY[:16], lambda x: x - x.max() - np.log(np.exp(x - x.max()).sum())),
    "ReduceLogSumExp": (ANY[:16], lambda x: np.array([np.log(np.exp(x - x.max()).sum()) + x.max()])),
    "ReduceLogSum": (POSITIVE[:12], lambda x: np.log(x.sum(keepdims=True))),
}


def imported(op_type: str) -> Model:
    shape = "1" if op_type.startswith("Reduce") else "N"
    text = f'<ir_version: 10, opset_import: ["": 20]> g (double[N] x) => (double[{shape}] y) {{ y = {op_type} (x) }}'
    return to_netdef(parser.parse_model(text))


def check(op_type: str, actual: np.ndarray[Any, Any]) -> None:
    x, function = FUNCTIONS[op_type]
    with np.errstate(all="ignore"):
        expected = function(x)
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-323, err_msg=op_type)


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_here(op_type: str) -> None:
    x, _ = FUNCTIONS[op_type]
    check(op_type, Predictor(imported(op_type)).run({"x": x})["y"])


@pytest.mark.parametrize("op_type", ["Exp", "Log", "Tanh"])
def test_no_elements(op_type: str) -> None:
    made = Predictor(imported(op_type)).run({"x": np.zeros(0)})["y"]
    assert (made.dtype, made.shape) == (np.float64, (0,))


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    runs = []
    for op_type, (x, _) in FUNCTIONS.items():
        model = imported(op_type)
        runs.append(OracleRun(model.predict_net, {"x": x}, model.init_net, ["y"]))
    for op_type, result in zip(FUNCTIONS, run_oracle(runs), strict=True):
        assert result.error == "", op_type
        check(op_type, result.outputs["y"])


def test_the_constants_are_stored_in_init_nets() -> None:
    for op_type in FUNCTIONS:
        assert imported(op_type).init_net.SerializeToString()
