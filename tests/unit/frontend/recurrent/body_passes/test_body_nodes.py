"""The constants that nodes of a body read."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.recurrent.body_passes.body_nodes import is_constant

PARAMETER = ir.Value(name="w", const_value=ir.Tensor(np.ones(1, np.float32)))


def doubled(value: ir.Value, times: int) -> ir.Value:
    """Return a value that is an operand twice at each of many levels: there are 2^times ways to it."""
    for _ in range(times):
        value = ir.Node("", "Add", [value, value]).outputs[0]
    return value


def test_what_is_computed_from_parameters_is_constant() -> None:
    assert is_constant(PARAMETER)
    assert is_constant(doubled(PARAMETER, 2000))


def test_what_is_computed_from_an_input_is_not() -> None:
    read = ir.Value(name="x")
    assert not is_constant(read)
    assert not is_constant(doubled(read, 2000))
    mixed = ir.Node("", "Sum", [doubled(PARAMETER, 40), None, read])
    assert not is_constant(mixed.outputs[0])
