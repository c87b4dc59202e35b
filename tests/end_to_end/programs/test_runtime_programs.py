"""Programs written for Caffe2, as they are in real Caffe2, and here with other imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import find_oracle
from support.paths import CHAR_RNN

from caffe2_bridge import load, save

HERE: Final = Path(__file__).resolve().parent
IMPORTS: Final = {
    "from caffe2.proto import": "from caffe2_bridge.proto import",
    "from caffe2.python.predictor import": "from caffe2_backend import",
    "from caffe2.python import": "from caffe2_backend import",
}


def ported(name: str, folder: Path) -> Path:
    """Return the program with this project's imports, and nothing else changed."""
    lines = (HERE / name).read_text().splitlines()
    changed = 0
    for i, line in enumerate(lines):
        for theirs, ours in IMPORTS.items():
            if line.startswith(theirs):
                lines[i] = line.replace(theirs, ours)
                changed += 1
                break
    assert changed == sum("caffe2" in line and "import" in line for line in lines)
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def printed(python: Path | str, *arguments: Path | str) -> Any:
    """Return what a program prints, read as JSON. Warnings of real Caffe2's start go to stderr."""
    paths = os.pathsep.join(path for path in sys.path if path) if python == sys.executable else ""
    done = subprocess.run(  # noqa: S603 - the programs of this folder
        [python, *arguments], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": paths}
    )
    return json.loads(done.stdout.splitlines()[-1])


def oracle() -> Path:
    python = find_oracle()
    assert python is not None
    return python


def test_generated_text_is_text(tmp_path: Path) -> None:
    result = printed(sys.executable, ported("generate_text.py", tmp_path), CHAR_RNN, "60")
    assert len(result["text"]) == 61
    assert result["blobs"]
    assert np.mean(result["probabilities"]) > 0.2, "a trained net is surer than chance"


@pytest.mark.oracle
def test_text_generation_loop(tmp_path: Path) -> None:
    ours = printed(sys.executable, ported("generate_text.py", tmp_path), CHAR_RNN, "200")
    theirs = printed(oracle(), HERE / "generate_text.py", CHAR_RNN, "200")
    assert ours["text"] == theirs["text"]
    np.testing.assert_allclose(ours["probabilities"], theirs["probabilities"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours["logits"], theirs["logits"], rtol=1e-3, atol=1e-3)


@pytest.fixture
def service(tmp_path: Path) -> tuple[Path, Path]:
    """A predictor database and an archive of requests."""
    model = load(CHAR_RNN)
    database = tmp_path / "model.minidb"
    save(model, database, format="minidb")
    random = np.random.default_rng(0)
    requests: dict[str, Any] = {}
    for i, steps in enumerate((1, 5, 3)):
        requests[f"{i}/input_blob"] = random.random((steps, 1, 94), np.float32)
        requests[f"{i}/seq_lengths"] = np.array([steps], np.int32)
        for name in ("hidden_init", "cell_init"):
            requests[f"{i}/{name}"] = random.random((1, 1, 192), np.float32)
    archive = tmp_path / "requests.npz"
    np.savez(archive, **requests)
    return database, archive


def test_service_answers(service: tuple[Path, Path], tmp_path: Path) -> None:
    answers = printed(sys.executable, ported("predictor_service.py", tmp_path), *service)
    assert [np.shape(answer[0]) for answer in answers] == [(1, 1, 94), (5, 1, 94), (3, 1, 94)]


@pytest.mark.oracle
def test_predictor_service(service: tuple[Path, Path], tmp_path: Path) -> None:
    ours = printed(sys.executable, ported("predictor_service.py", tmp_path), *service)
    theirs = printed(oracle(), HERE / "predictor_service.py", *service)
    for our, their in zip(ours, theirs, strict=True):
        for a, b in zip(our, their, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
