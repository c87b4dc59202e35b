"""Batches of rows, and batches that are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from caffe2_backend.training.batches import make_batches
from caffe2_bridge.diagnostics import OptionError, RunError

ROWS: dict[str, Any] = {"x": np.arange(14).reshape(7, 2), "y": np.arange(7)}


def test_rows_are_cut_and_start_again() -> None:
    batches = make_batches(ROWS, ("x", "y"), 3, {})
    assert len(batches) == 2
    assert batches.batch(0)["y"].tolist() == [0, 1, 2]
    assert batches.batch(1)["x"].tolist() == [[6, 7], [8, 9], [10, 11]]
    assert batches.batch(2)["y"].tolist() == [0, 1, 2]
    assert set(batches.batch(0)) == {"x", "y"}
    assert batches.open_dims


def test_all_rows_are_one_batch() -> None:
    assert make_batches(ROWS, ("x", "y"), None, {}).batch(5)["y"].tolist() == list(range(7))


def test_given_steps() -> None:
    arrays = {f"{step}/a/x": np.full((step + 1,), step) for step in range(11)}
    batches = make_batches(arrays, ("a/x",), None, {})
    assert len(batches) == 11
    assert [batches.batch(step)["a/x"].tolist() for step in (1, 11)] == [[1, 1], [0]]
    assert not batches.open_dims


def test_optional_inputs() -> None:
    rate = np.zeros((1,), np.float32)
    batches = make_batches({"0/x": rate, "0/rate": rate, "1/x": rate}, ("x",), None, {}, ("rate", "decay"))
    assert [set(batches.batch(step)) for step in (0, 1)] == [{"x", "rate"}, {"x"}]
    assert set(make_batches({"x": rate, "rate": rate}, ("x",), None, {}, ("rate",)).batch(0)) == {"x", "rate"}


def test_a_net_without_inputs() -> None:
    assert make_batches({}, (), None, {}).batch(3) == {}


@pytest.mark.parametrize(
    ("arrays", "size", "kind", "words"),
    [
        ({"x": ROWS["x"]}, 3, RunError, "input 'y' is not given \\(y: int32\\[N\\]\\)"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(3)}, 1, RunError, "one number of rows \\(x: 2, y: 3\\)"),
        ({"x": np.zeros(()), "y": np.zeros(3)}, 1, RunError, "'x' has no leading dim"),
        (ROWS, 8, OptionError, "from 1 to the number of rows \\(7\\), not 8"),
        ({"0/x": np.zeros(1), "0/y": np.zeros(1)}, 1, OptionError, "STEP/INPUT"),
        ({**ROWS, "xx": np.zeros(7)}, 1, RunError, "input 'xx' does not exist: the model has the inputs 'x', 'y'"),
        ({"0/x": np.zeros(1), "0/yy": np.zeros(1)}, None, RunError, "input 'yy' does not exist: .* 'y', 'x'"),
        ({"0/x": np.zeros(1), "2/x": np.zeros(1)}, None, RunError, "from 0 without gaps"),
        ({"0/x": np.zeros(1), "0/y": np.zeros(1), "1/x": np.zeros(1)}, None, RunError, "step 1 of the data: input 'y'"),
    ],
)
def test_data_that_does_not_fit(arrays: dict[str, Any], size: int | None, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make_batches(arrays, ("x", "y"), size, {"y": "int32[N]"})
