"""Training programs recorded from real Caffe2: losses of every step, and parameters and states at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.training import read_program, replay

from caffe2_backend import Workspace
from caffe2_backend.runtime.program.states import resident

PROGRAMS = Path(__file__).parent / "training"


NAMES = sorted(folder.name for folder in PROGRAMS.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_programs_train_as_in_caffe2(name: str) -> None:
    train(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("sparse")])
def test_small_tables_train_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "LARGE", 0)
    train(name)


def train(name: str) -> None:
    program = read_program(PROGRAMS / name)
    workspace = Workspace()
    for step, (loss, recorded) in enumerate(zip(replay(program, workspace), program.losses, strict=True)):
        np.testing.assert_allclose(loss, recorded, rtol=1e-3, atol=1e-4, err_msg=f"{step}")
        if not step:
            before = workspace.conversions()
    for blob, final in program.final.items():
        np.testing.assert_allclose(workspace.fetch(blob), final, rtol=5e-3, atol=5e-4, err_msg=blob)
    conversions = workspace.conversions() - before
    assert conversions <= 2, "when the loss is first fetched, and when sizes of feeds change"
