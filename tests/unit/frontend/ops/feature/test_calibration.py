"""Box-Cox transformations of data of any rank: results of real Caffe2; and piecewise linear functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.caffe2_cases import assert_refused

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import ConversionError, RunError


def box_cox(data: Any, columns: int) -> Any:
    workspace = Workspace()
    workspace.feed("x", np.float32(data))
    workspace.feed("power", np.full(columns, 0.5, np.float32))
    workspace.feed("shift", np.ones(columns, np.float32))
    workspace.run_operator_once(operator("BatchBoxCox", ["x", "power", "shift"], ["y"]))
    return workspace.fetch("y")


def test_data_of_rank_1_is_one_column() -> None:
    np.testing.assert_allclose(box_cox([1, 2, 5], 1), [0.8284271, 1.4641016, 2.898979], rtol=1e-6)


def test_rows_of_data_of_rank_3_are_flattened() -> None:
    np.testing.assert_allclose(box_cox(np.ones((2, 3, 2)), 6), np.full((2, 3, 2), 0.8284271), rtol=1e-6)


@pytest.mark.parametrize(("data", "columns"), [([1, 2, 5], 3), (np.ones((2, 3, 2)), 3), (2.0, 1)])
def test_columns_that_do_not_fit_are_refused(data: Any, columns: int) -> None:
    with pytest.raises((ConversionError, RunError)):
        box_cox(data, columns)


def test_a_piecewise_linear_function_without_intercepts_is_refused() -> None:
    operands = [np.array(values, np.float32) for values in ([0], [0, 1], [1])]
    assert_refused("PiecewiseLinearTransform", operands, binary=1)
