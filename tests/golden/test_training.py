"""Training programs recorded from real Caffe2: losses of every step, and parameters and states at the end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from caffe2_backend import Workspace
from caffe2_backend.runtime.program import resident
from caffe2_bridge.proto.caffe2_pb2 import NetDef

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
    folder = PROGRAMS / name
    program = json.loads((folder / "program.json").read_text())
    feeds, expected = np.load(folder / "feeds.npz"), np.load(folder / "expected.npz")
    workspace = Workspace()
    workspace.run_net_once(NetDef.FromString((folder / "init_net.pb").read_bytes()))
    net = workspace.create_net(NetDef.FromString((folder / "train_net.pb").read_bytes()))
    before = workspace.conversions()
    for step in range(program["steps"]):
        for key in feeds.files:
            number, _, blob = key.partition("/")
            if int(number) == step:
                workspace.feed(blob, feeds[key])
        workspace.run_net(net)
        loss = workspace.fetch(program["loss"])
        np.testing.assert_allclose(loss, expected[f"{step}/{program['loss']}"], rtol=1e-3, atol=1e-4, err_msg=f"{step}")
    for blob in program["final"]:
        np.testing.assert_allclose(workspace.fetch(blob), expected[f"final/{blob}"], rtol=5e-3, atol=5e-4, err_msg=blob)
    conversions = workspace.conversions() - before
    assert conversions <= 3, "one when it first runs, when the loss is first fetched, and when sizes of feeds change"
