"""Functions of single elements on integers and doubles, in real Caffe2 and in this project's runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from support.strict_import import comparison

from caffe2_backend import Predictor, to_netdef

DTYPES = {"int8": np.int8, "int32": np.int32, "int64": np.int64, "double": np.float64, "float": np.float32}
VALUES = [-3, 0, 5, -100]


@pytest.mark.parametrize("kind", DTYPES)
def test_here(kind: str) -> None:
    x = np.array(VALUES, DTYPES[kind])
    shrunk = np.where(x < -2.5, x + 1.5, np.where(x > 2.5, x - 1.5, 0)).astype(x.dtype)
    for op_type, wanted in (
        ("Abs", abs(x)), ("Sign", np.sign(x)), ("Relu", np.maximum(x, 0)), ("Shrink<bias = 1.5, lambd = 2.5>", shrunk),
    ):  # fmt: skip
        text = f'<ir_version: 10, opset_import: ["": 20]> g ({kind}[N] x) => ({kind}[N] y) {{ y = {op_type} (x) }}'
        y = Predictor(to_netdef(parser.parse_model(text))).run({"x": x})["y"]
        assert y.dtype == wanted.dtype
        np.testing.assert_array_equal(y, wanted)


def test_infinite_doubles() -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (double[N] x) => (double[N] y) { y = Relu (x) }'
    y = Predictor(to_netdef(parser.parse_model(text))).run({"x": np.array([-np.inf, np.inf, np.nan])})["y"]
    np.testing.assert_array_equal(y, [0, np.inf, np.nan])


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    with comparison() as check:
        for kind, dtype in DTYPES.items():
            for op_type in ("Abs", "Sign", "Relu", "Shrink<bias = 1.5, lambd = 2.5>"):
                if (op_type, kind) != ("Relu", "int64"):  # onnxruntime has no such kernel
                    check(f"{kind}[N] x", f"{kind}[N] y", f"y = {op_type} (x)", [{"x": np.array(VALUES, dtype)}])


@pytest.mark.oracle
def test_norms_in_real_caffe2() -> None:
    """Of doubles, and absolute sums of integers; axes are known, or computed at run time."""
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 4))
    x[1, 2] = 0
    with comparison() as check:
        for kind, op_type in (
            ("double", "ReduceL1"),
            ("double", "ReduceL2"),
            ("int32", "ReduceL1"),
            ("int64", "ReduceL1"),
            ("float", "ReduceL2"),
        ):
            feed = {"x": x.astype(DTYPES[kind])}
            axes = {"a": np.array([0, 2])}
            check(f"{kind}[A,B,C] x", f"{kind} y", f"y = {op_type}<keepdims = 0>(x)", [feed])
            check(f"{kind}[A,B,C] x, int64[2] a", f"{kind} y", f"y = {op_type}(x, a)", [feed | axes])
        for p in (1, 2):
            body = f"y = LpNormalization<axis = 2, p = {p}>(x)"
            check("double[A,B,C] x", "double[A,B,C] y", body, [{"x": x.astype(np.float64)}])
