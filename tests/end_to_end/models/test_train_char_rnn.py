"""The recipe that trains a character model from random weights: its loss falls, and what it saves is a model."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.paths import ROOT

import caffe2_bridge as c2
from caffe2_backend import Predictor

TEXT = "the quick brown fox jumps over the lazy dog. " * 100


@pytest.fixture(name="recipe")
def load_recipe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "models")
    for name in ("char_rnn", "train_char_rnn"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("train_char_rnn")


def test_the_loss_falls(recipe: ModuleType) -> None:
    training = recipe.Training(TEXT, hidden=24, batch=4)
    losses = [loss for _, loss in zip(range(150), training.losses(), strict=False)]
    assert losses[0] == pytest.approx(np.log(len(training.characters)), rel=0.1)
    assert np.mean(losses[-10:]) < losses[0] / 2
    assert training.space.fetch("iteration").item() == len(losses)


def test_the_state_is_carried_from_step_to_step(recipe: ModuleType) -> None:
    training = recipe.Training(TEXT, hidden=8, batch=2)
    next(training.losses())
    for initial, last in recipe.STATES.items():
        state = training.space.fetch(initial)
        assert state.any()
        np.testing.assert_array_equal(state, training.space.fetch(last))


def test_what_is_saved_writes_the_same_text(recipe: ModuleType, tmp_path: Path) -> None:
    training = recipe.Training(TEXT, hidden=8, batch=4)
    next(training.losses())
    c2.save(training.model(), tmp_path)
    text = training.write("the ", 20)
    assert len(text) == 20
    assert text.startswith("the ")
    training.predictor = Predictor(tmp_path)
    training.weights = dict
    assert training.write("the ", 20) == text


def test_the_command(
    recipe: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text(TEXT)
    folder = tmp_path / "model"
    monkeypatch.setattr(sys, "argv", ["recipe", str(folder), "--text", str(tmp_path / "text"), "--seconds", "0.1"])
    recipe.main()
    assert f"wrote {folder}" in capsys.readouterr().out
    facts = json.loads((folder / "char_rnn.json").read_text())
    assert facts["vocab"] == "".join(sorted(set(TEXT)))
    assert set(c2.load(folder).inputs) == {"input_blob", "seq_lengths", *recipe.STATES}
