"""Operators whose only effect is to fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError


@pytest.mark.parametrize(
    ("op_type", "args", "message"),
    [
        ("Fail", {}, "Fail: the operator always fails"),
        ("ThrowException", {"message": "broken"}, "ThrowException: broken"),
        ("LogFatal", {"message": "fatal"}, "LogFatal: fatal"),
    ],
)
def test_operators_that_always_fail(op_type: str, args: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        Workspace().run_operator_once(operator(op_type, [], [], **args))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([True, True]), None),
        (np.array([[1, 2]]), None),
        (np.zeros(0, np.int32), None),
        (np.array([True, False]), "assertion failed for blob 'x': no"),
        (np.array([1.0]), "must hold booleans or integers, not float64"),
    ],
)
def test_assert(value: Any, message: str | None) -> None:
    workspace = Workspace()
    workspace.feed("x", value)
    check = operator("Assert", ["x"], [], error_msg="no")
    if message is None:
        workspace.run_operator_once(check)
    else:
        with pytest.raises(RunError, match=message):
            workspace.run_operator_once(check)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([[1.0, 2.0]], np.float32), None),
        (np.zeros(0, np.float32), None),
        (np.array([[1.0], [np.inf]], np.float32), "element 1 of blob 'x' must be finite, not inf"),
        (np.array([np.nan], np.float16), "element 0 of blob 'x' must be finite, not nan"),
        (np.array([1]), "must hold floats, not int64"),
    ],
)
def test_enforce_finite(value: Any, message: str | None) -> None:
    workspace = Workspace()
    workspace.feed("x", value)
    check = operator("EnforceFinite", ["x"], [])
    if message is None:
        workspace.run_operator_once(check)
    else:
        with pytest.raises(RunError, match=message):
            workspace.run_operator_once(check)


def test_nan_check() -> None:
    workspace = Workspace()
    workspace.feed("x", np.array([1.0, 2.0], np.float32))
    workspace.feed("other", np.zeros(1, np.float32))
    check = operator("NanCheck", ["x", "other"], ["y"])
    workspace.run_operator_once(check)
    np.testing.assert_array_equal(np.asarray(workspace.fetch("y")), [1, 2])
    workspace.feed("x", np.array([1.0, np.nan], np.float32))
    with pytest.raises(RunError, match="element 1 of blob 'x' must be finite, not nan"):
        workspace.run_operator_once(check)
