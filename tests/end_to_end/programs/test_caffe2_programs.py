"""Programs on Caffe2's own Python files: on this project's runtime and in real Caffe2, from equal parameters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.oracle import oracle_packages, required_oracle
from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

# Steps whose losses agree within the rounding of one step: later ones add up the differences of all before them.
EXACT_STEPS = 10
START = "from caffe2_cli.commands import main; main()"
PACKAGES = [str(ROOT / name) for name in ("bridge", "frontend", "backend")]


def run(python: Path | str, arguments: list[str], packages: list[str]) -> str:
    """Run a Python program: what it prints. One thread: idle ones of real Caffe2 wait busily."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(packages), "OMP_NUM_THREADS": "1"}
    command = [str(python), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)  # noqa: S603 - ours
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def figures(name: str, folder: Path) -> tuple[Any, Any]:
    """Return what a program of caffe2_tests.programs prints in real Caffe2, and here."""
    python, copy = required_oracle(), oracle_packages()
    found = []
    for kind, interpreter, files, packages in (("real", python, "", []), ("here", sys.executable, str(copy), PACKAGES)):
        own = folder / kind
        own.mkdir()
        arguments = ["-m", "caffe2_tests.programs", name, files, str(own)]
        found.append(json.loads(run(interpreter, arguments, [str(ROOT / "tests"), *packages])))
    return found[0], found[1]


def compare(expected: Any, ours: Any, path: str = "") -> None:
    """Compare figures: losses of the first steps within 1e-5, other numbers loosely, texts and integers exactly."""
    if isinstance(expected, dict):
        assert expected.keys() == ours.keys()
        for key, value in expected.items():
            compare(value, ours[key], f"{path}/{key}")
    elif isinstance(expected[0], float):
        if path.endswith("losses"):
            np.testing.assert_allclose(ours[:EXACT_STEPS], expected[:EXACT_STEPS], rtol=1e-5, err_msg=path)
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-6, err_msg=path)
    else:
        assert ours == expected, path


@pytest.mark.parametrize("name", ["toy_regression", "mnist", "resnet", "convnets", "seq2seq"])
def test_losses_predictions_and_translations(name: str, tmp_path: Path) -> None:
    expected, ours = figures(name, tmp_path)
    compare(expected, ours)


def test_replicas_compute_what_one_device_computes(tmp_path: Path) -> None:
    expected, ours = figures("data_parallel", tmp_path)
    compare(expected, ours)
    for kind, found in ours.items():
        compare(ours["1 copied"], found, kind)


def test_sparse_training_copies_no_table(tmp_path: Path) -> None:
    expected, ours = figures("sparse", tmp_path)
    assert ours.pop("copied") == dict.fromkeys(ours, 0)
    compare({name: found for name, found in expected.items() if name != "copied"}, ours)


def test_a_database_of_lmdb_is_read_as_it_was_written(tmp_path: Path) -> None:
    """examples/lmdb_create_example.py; real Caffe2's wheels have no LMDB to compare with."""
    copy = oracle_packages()
    program = ["-m", "caffe2.python.examples.lmdb_create_example", "--output_file", str(tmp_path / "db")]
    text = run(sys.executable, ["-c", START, "python", "--caffe2", str(copy), *program], PACKAGES)
    written, read = (line.split(": ")[1] for line in text.splitlines() if line.startswith("Checksum/"))
    assert written == read
