"""What functions that evaluate operators of init nets share: numbers of inputs, axes, types, and broadcasting."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import ArgumentValue, operator

from caffe2_bridge.init.fill import FillError
from caffe2_bridge.init.operand import aligned, axis_of, integers_of, require_inputs, require_numbers
from caffe2_bridge.netdef.views import OpView

X = np.zeros((2, 3, 4), np.float32)


def test_numbers_of_inputs() -> None:
    require_inputs([X, X], 2)
    require_inputs([X], 1, 3)
    with pytest.raises(FillError, match="must have 2 inputs, not 1"):
        require_inputs([X], 2)
    with pytest.raises(FillError, match="must have 1 to 3 inputs, not 4"):
        require_inputs([X] * 4, 1, 3)


def test_axes() -> None:
    assert [axis_of(axis, 3) for axis in (0, 2, -1, -3)] == [0, 2, 2, 0]
    for axis in (3, -4):
        with pytest.raises(FillError, match=f"axis {axis} is out of range for a tensor of rank 3"):
            axis_of(axis, 3)


def test_integers() -> None:
    assert integers_of(np.array([[3], [-1]], np.int32), "shape") == (3, -1)
    for dtype in ("int8", "uint32", "float32"):
        with pytest.raises(FillError, match=f"shape must be int32 or int64, not {dtype}"):
            integers_of(np.zeros(1, dtype), "shape")


def test_numbers_of_one_type() -> None:
    require_numbers([X, X])
    with pytest.raises(FillError, match="one element type, not float32, int64"):
        require_numbers([X, np.zeros(1, np.int64)])
    with pytest.raises(FillError, match="must be numbers"):
        require_numbers([np.array(["a"], object)])


@pytest.mark.parametrize(
    ("args", "dims", "shape"),
    [
        ({}, (3,), (3,)),
        ({"broadcast": 1}, (3, 4), (3, 4)),
        ({"broadcast": 1, "axis": 1}, (3,), (3, 1)),
        ({"broadcast": 1, "axis": 0}, (2,), (2, 1, 1)),
        ({"broadcast": 1, "axis_str": "C"}, (3,), (3, 1)),
        ({"broadcast": 1, "axis_str": "C", "order": "NHC"}, (4,), (4,)),
    ],
)
def test_operands_are_aligned(args: dict[str, ArgumentValue], dims: tuple[int, ...], shape: tuple[int, ...]) -> None:
    op = OpView(operator("Add", ["A", "B"], ["C"], **args), 0)
    a, b = aligned(op, X, np.zeros(dims, np.float32))
    assert a is X
    assert b.shape == shape


@pytest.mark.parametrize(("args", "dims"), [({"axis": 2}, (3, 4)), ({}, (1, 2, 3, 4)), ({}, (3,)), ({"axis": 1}, (2,))])
def test_operands_that_do_not_fit(args: dict[str, ArgumentValue], dims: tuple[int, ...]) -> None:
    op = OpView(operator("Add", ["A", "B"], ["C"], broadcast=1, **args), 0)
    with pytest.raises(FillError, match="does not fit into the first"):
        aligned(op, X, np.zeros(dims, np.float32))
