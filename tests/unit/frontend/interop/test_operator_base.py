from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from caffe2_bridge.diagnostics import Location, Severity
from caffe2_frontend.interop.operator_base import OperatorBase, RefusedBodyError, UnsupportedError

HERE = Location("net", 3, "FC")


class Log:
    def __init__(self) -> None:
        self.reports: list[tuple[str, str, Location, str, Severity]] = []

    def report(
        self, code: str, reason: str, here: Location, hint: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        self.reports.append((code, reason, here, hint, severity))


def value(*dims: int | str | None) -> ir.Value:
    return ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(dims))


def refused(call: Callable[..., object], *args: Any) -> tuple[str, str]:
    with pytest.raises(UnsupportedError) as error:
        call(*args)
    return error.value.code, error.value.reason


def test_known_values() -> None:
    op = OperatorBase(HERE, Log())
    x = value(2, "n", None)
    assert op.dtype(x) == ir.DataType.FLOAT
    assert op.rank(x) == 3
    assert op.static_dim(x, 0) == 2
    assert op.static_dim(x, 1) is None
    assert op.static_shape(x) is None
    assert op.static_shape(value(2, 3)) == (2, 3)
    assert op.static_shape(value()) == ()


def test_unknown_values_refuse_the_operator() -> None:
    op = OperatorBase(HERE, Log())
    x = ir.Value(name="x")
    assert refused(op.dtype, x) == ("needs-shape", "the element type of 'x' is unknown")
    assert refused(op.rank, x) == ("needs-shape", "the rank of 'x' is unknown")
    assert refused(op.static_dim, x, 0) == ("needs-shape", "the rank of 'x' is unknown")
    assert op.static_shape(x) is None


def test_contents_of_constants_alone_are_known() -> None:
    op = OperatorBase(HERE, Log())
    constant = ir.Value(name="c", const_value=ir.Tensor(np.array([1, 2])))
    np.testing.assert_array_equal(op.known(constant), [1, 2])
    assert op.known(value(2)) is None


def test_axis() -> None:
    op = OperatorBase(HERE, Log())
    assert [op.axis(axis, 3) for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert refused(op.axis, 3, 3) == ("invalid-argument", "axis 3 is out of range for rank 3")
    assert refused(op.axis, -4, 3, "dim")[1] == "dim -4 is out of range for rank 3"
    assert refused(op.axis, 0, 0)[0] == "invalid-argument"


def test_axis_of_a_scalar_where_it_is_allowed() -> None:
    class Node(OperatorBase):
        allows_scalar_axis = True

    op = Node(HERE, Log())
    assert op.axis(0, 0) == 0
    assert refused(op.axis, 1, 0)[0] == "invalid-argument"


def test_note_is_reported_at_the_operator() -> None:
    log = Log()
    OperatorBase(HERE, log).note("a choice")
    assert log.reports == [("note", "a choice", HERE, "", Severity.NOTE)]


def test_refused_body_is_a_refusal() -> None:
    assert issubclass(RefusedBodyError, UnsupportedError)
    assert RefusedBodyError().code == "refused-body"
