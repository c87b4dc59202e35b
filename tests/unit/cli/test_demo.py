"""``caffe2-bridge demo``: what it writes, and what it prints to type, typed here.

Modules: demo.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from release.contents import MAXIMUM_BYTES, PACKAGES, tracked_files
from support.paths import ROOT

from caffe2_backend import Predictor
from caffe2_cli.commands import main
from caffe2_cli.subcommands.demo import _FILES

STORED = Path(str(files("caffe2_cli") / "demo_files"))


def demo(folder: Path) -> list[str]:
    """Run the command, and return what it says to type."""
    result = CliRunner().invoke(main, ["demo", str(folder)])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    return [line.strip() for line in lines[lines.index("What to type next:") + 1 :]]


def test_the_files_are_those_of_the_package_which_are_small(tmp_path: Path) -> None:
    demo(tmp_path / "a b")
    found = {str(file.relative_to(tmp_path / "a b")) for file in (tmp_path / "a b").rglob("*") if file.is_file()}
    assert found == _FILES.keys()
    stored = {str(file.relative_to(STORED)): file.stat().st_size for file in STORED.rglob("*") if file.is_file()}
    assert stored.keys() == set(_FILES.values())
    assert sum(stored.values()) < 300_000 < MAXIMUM_BYTES
    # A wheel holds what git tracks of the packages: tests/surface/test_package.py compares the two.
    assert {f"backend/caffe2_cli/demo_files/{name}" for name in stored} <= tracked_files(*PACKAGES)


def test_a_second_time_replaces_the_files(tmp_path: Path) -> None:
    first = demo(tmp_path)
    (tmp_path / "cnn" / "init_net.pb").write_bytes(b"")
    (tmp_path / "mine").touch()
    assert demo(tmp_path) == first
    assert (tmp_path / "cnn" / "init_net.pb").read_bytes() == (STORED / "cnn" / "init_net.pb").read_bytes()
    assert (tmp_path / "mine").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["demo", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "file/lstm: this is a file, and a folder is expected" in result.stderr


def test_what_it_says_to_type_works(tmp_path: Path) -> None:
    commands = demo(tmp_path / "a b")
    script = " && ".join(f"echo '$ {command}' && {command}" for command in commands)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(  # noqa: S602 - what the command says to type
        script, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "covered" in said
    assert "agree" in said
    assert "digit: float32[10, 10]" in said
    assert "next_letter: float32[8, 2, 27]" in said
    assert "The CNN reads 0 1 2 3 4 5 6 7 8 9\n" in said
    written = said.partition("The LSTM writes: the function")[2]
    assert len(set(written.split())) > 1


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(ROOT / "models")
    for name in ("char_rnn", "train_char_rnn", "train_examples"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("train_examples")


def test_the_models_are_those_of_the_recipe_and_have_learnt(recipe: object) -> None:
    nets = {"lstm": recipe.lstm(), "cnn": recipe.cnn()}  # type: ignore[attr-defined] # a module
    predictors = {name: Predictor(STORED / name) for name in nets}
    for name, made in nets.items():
        model = predictors[name]._runner._model  # type: ignore[union-attr] # of a Caffe2 model
        assert model.predict_net == made.model().predict_net
    digits = np.random.default_rng(7).integers(0, 10, 200)
    images = recipe.draw(digits, np.random.default_rng(8))  # type: ignore[attr-defined] # as above
    read = predictors["cnn"].run({"image": images})["digit"].argmax(axis=1)
    assert (read == digits).mean() > 0.97
    batch = dict(next(recipe.texts()))  # type: ignore[attr-defined] # as above
    label = batch.pop("label")
    found = predictors["lstm"].run(batch)["next_letter"].reshape(len(label), -1)
    assert -np.log(found[np.arange(len(label)), label]).mean() < 2.2  # nats a letter; 3.3 before training


def test_the_recipe_trains(recipe: object) -> None:
    module = recipe
    net, batches = module.cnn(), module.pictures()  # type: ignore[attr-defined] # as above
    first, last = (module.train(module.cnn(), net, module.pictures(), steps) for steps in (1, 60))  # type: ignore[attr-defined] # as above
    batch = dict(next(batches))
    label = batch.pop("label")

    def loss(model: object) -> float:
        found = Predictor(model).run(batch)["digit"]  # type: ignore[arg-type] # a model
        return float(-np.log(found[np.arange(len(label)), label]).mean())

    assert loss(last) < loss(first) - 0.2
