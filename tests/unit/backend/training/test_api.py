"""The function that trains a net in Python."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.training import classifier_data, linear_classifier, read_program

from caffe2_backend import NetFormatError, OptionError, RunError, train
from caffe2_bridge import Model, save

DATA = classifier_data(12)
BATCHES = [{name: array[i : i + 4] for name, array in DATA.items()} for i in (0, 4, 8)]


def linear() -> Model:
    return Model.of(*linear_classifier())


def test_real_caffe2s_losses() -> None:
    recorded = read_program("mlp_adam")
    before = {name: recorded.model.params[name].copy() for name in recorded.model.params}
    found = train(recorded.model, recorded.feeds, steps=len(recorded.feeds))
    assert found.loss == "loss"
    np.testing.assert_allclose(found.losses, recorded.losses, rtol=1e-4)
    for name, value in recorded.final.items():
        np.testing.assert_allclose(found.model.params[name], value, rtol=5e-3, atol=5e-4, err_msg=name)
    for name, value in before.items():
        np.testing.assert_array_equal(recorded.model.params[name], value)


def test_a_run_continues_from_its_checkpoint(tmp_path: Path) -> None:
    whole = train(linear(), BATCHES, steps=7)
    train(linear(), BATCHES, steps=3, checkpoint=tmp_path / "run")
    continued = train(linear(), iter(BATCHES * 3), steps=7, checkpoint=tmp_path / "run")
    assert continued.losses == whole.losses
    for name, value in whole.model.params.items():
        np.testing.assert_array_equal(continued.model.params[name], value)


def test_what_a_trained_model_goes_on_from(tmp_path: Path) -> None:
    whole, half = train(linear(), BATCHES, steps=6), train(linear(), BATCHES, steps=3)
    save(half.model, tmp_path)
    assert train(tmp_path, BATCHES, steps=3).losses == whole.losses[3:]


@pytest.mark.parametrize(
    ("batches", "error", "reason"),
    [
        ([], OptionError, "there are 0 batches, and step 1 needs another one"),
        (iter(BATCHES[:2]), OptionError, "there are 2 batches, and step 3 needs another one"),
        (BATCHES[0], OptionError, "batches must be a list"),
        (None, OptionError, "batches must be a list"),
        ([DATA["data"]], RunError, "must be a mapping"),
        ([BATCHES[0], {"data": DATA["data"]}], RunError, "input 'label' is not given"),
        ([{**BATCHES[0], "lable": DATA["label"]}], RunError, "input 'lable' does not exist"),
    ],
)
def test_batches_that_a_step_cannot_take(batches: Iterable[Any], error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        train(linear(), batches, steps=4)


@pytest.mark.parametrize("steps", [0, 1.5, "2"])
def test_steps_are_a_number_of_steps(steps: Any) -> None:
    with pytest.raises(OptionError, match="steps must be"):
        train(linear(), BATCHES, steps=steps)


def test_a_checkpoint_of_another_net(tmp_path: Path) -> None:
    recorded = read_program("mlp_adam")
    train(linear(), BATCHES, steps=1, checkpoint=tmp_path)
    with pytest.raises(NetFormatError):
        train(recorded.model, recorded.feeds, steps=2, checkpoint=tmp_path)
