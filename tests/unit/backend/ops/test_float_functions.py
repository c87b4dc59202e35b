"""Functions of single elements over float's range, in real Caffe2 and on onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from support.strict_import import comparison

pytestmark = pytest.mark.oracle

SIZES = (
    0, 1e-42, 1e-30, 1e-10, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9999, 1, 1.0001, 2, 3, 5, 8, 10, 15, 17, 20, 30, 50,
    80, 88, 89, 90, 100, 104, 500, 1e3, 1e4, 1e5, 1e8, 1e10, 1e15, 1e19, 2e19, 1e30, 1e37,
)  # fmt: skip
FUNCTIONS = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Celu<alpha = 2.0>", "Cos", "Cosh",
    "Elu", "Elu<alpha = 0.3>", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish",
    "Neg", "Reciprocal", "Relu", "Round", "Selu", "Selu<gamma = 0.5>", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip


def test_every_size() -> None:
    feed = {"x": np.array(sorted({*SIZES, *(-size for size in SIZES)}), np.float32)}
    with comparison() as check:
        for function in FUNCTIONS:
            check("float[N] x", "float y", f"y = {function}(x)", [feed])
