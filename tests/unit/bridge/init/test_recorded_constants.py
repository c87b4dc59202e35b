"""Operators of init nets against what real Caffe2 computed: every recorded case of a type that is evaluated."""

from __future__ import annotations

import numpy as np
import pytest
from support.paths import GOLDEN
from support.recorded_cases import cases

from caffe2_bridge.init.evaluate import EVALUATED, evaluate_init_net
from caffe2_bridge.init.init_net import read_init_net

TYPES = sorted(kind for kind in EVALUATED if (GOLDEN / "ops" / f"{kind}.npz").is_file())
# Products and functions of the C library: the last digits differ.
ROUNDED = {"BatchMatMul", "Cos", "Exp", "Log", "MatMul", "Pow", "ReduceMean", "ReduceSum", "Sigmoid", "Sin", "Tanh"}


@pytest.mark.parametrize("kind", TYPES)
def test_an_operator_of_constants_is_what_caffe2_computed(kind: str) -> None:
    compared = 0
    for net, known, expected, _ in cases(GOLDEN / "ops" / f"{kind}.npz"):
        made, findings = evaluate_init_net(read_init_net(net, known))
        assert not findings, net
        for name, array in expected.items():
            values = made[name].load()
            assert (values.dtype, values.shape) == (array.dtype, array.shape), net
            if kind in ROUNDED and array.dtype.kind == "f":
                np.testing.assert_allclose(values, array, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(values, array)
            compared += 1
    assert compared
