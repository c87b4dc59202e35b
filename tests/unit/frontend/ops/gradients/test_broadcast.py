"""Gradients of broadcasting: what is summed may be known at run time alone."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (2, 1), (1, 1)])
def test_dims_that_are_one_at_run_time_are_summed(shape: tuple[int, int]) -> None:
    specs: Specs = {name: ("float32", (f"{name}0", f"{name}1")) for name in ("dC", "A", "B")}
    model = export(operator("MulGradient", ["dC", "A", "B"], ["dA", "dB"]), specs)
    dc, a = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2, np.float32)
    da, db = run(model, {"dC": dc, "A": a, "B": np.full(shape, 3, np.float32)})
    np.testing.assert_array_equal(da, dc * 3)
    axes = tuple(axis for axis in (0, 1) if shape[axis] == 1)
    np.testing.assert_array_equal(db, (dc * a).sum(axes, keepdims=True))


def test_operands_of_one_shape_are_not_summed() -> None:
    specs: Specs = dict.fromkeys(("dC", "A", "B"), ("float32", ("N", "C")))
    model = export(operator("AddGradient", ["dC", "A", "B"], ["dA", "dB"]), specs)
    assert dims(model) == ["N", "C"]
    assert not {node.op_type for node in model.graph.node} - {"Identity"}


@pytest.mark.parametrize(("axis", "expected"), [(0, [3, 12]), (1, [3, 5, 7])])
def test_legacy_axis(axis: int, expected: list[int]) -> None:
    specs: Specs = {"dC": ("float32", (2, 3)), "A": ("float32", (2, 3)), "B": ("float32", (len(expected),))}
    net = operator("AddGradient", ["dC", "A", "B"], ["dA", "dB"], broadcast=1, axis=axis)
    dc = np.arange(6, dtype=np.float32).reshape(2, 3)
    db = run(export(net, specs), {"dC": dc, "A": dc, "B": np.zeros(len(expected), np.float32)})[1]
    np.testing.assert_array_equal(db, expected)
