"""A service that runs for long does not grow."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from conformance.recording import operator
from support.paths import CHAR_RNN, ROOT

from caffe2_backend import Workspace
from caffe2_backend.runtime import SessionOptions
from caffe2_backend.runtime.program.states import resident as in_place_states
from caffe2_bridge import load
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef

LONGEST: Final = 40
WARM: Final = 1_000


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the memory in use as Linux shows it")
def test_10_000_runs_of_changing_lengths() -> None:
    model = load(CHAR_RNN)
    workspace = Workspace(options=SessionOptions(threads=1))
    workspace.run_net_once(model.init)
    name = workspace.create_net(model.predict_net)
    random = np.random.default_rng(0)
    data = random.random((LONGEST, 1, 94), np.float32)
    workspace.feed("hidden_init", np.zeros((1, 1, 192), np.float32))
    workspace.feed("cell_init", np.zeros((1, 1, 192), np.float32))

    def run(steps: int) -> None:
        workspace.feed("input_blob", data[:steps])
        workspace.feed("seq_lengths", np.array([steps], np.int32))
        workspace.run_net(name)
        assert np.shape(workspace.fetch("softmax")) == (steps, 1, 94)

    run(LONGEST)
    for steps in random.integers(1, LONGEST + 1, WARM):
        run(int(steps))
    before = resident()
    for steps in random.integers(1, LONGEST + 1, 10_000):
        run(int(steps))
    assert resident() <= 1.05 * before
    assert workspace.conversions() == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the memory in use as Linux shows it")
@pytest.mark.parametrize("name", ["mlp_adam", "sparse_adagrad"])
def test_5_000_training_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place_states, "LARGE", 0)
    folder = ROOT / "tests" / "golden" / "training" / name
    workspace = Workspace(options=SessionOptions(threads=1))
    workspace.run_net_once(NetDef.FromString((folder / "init_net.pb").read_bytes()))
    net = workspace.create_net(NetDef.FromString((folder / "train_net.pb").read_bytes()))
    feeds = np.load(folder / "feeds.npz")
    batches: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
    for key in feeds.files:
        step, _, blob = key.partition("/")
        batches.setdefault(step, {})[blob] = feeds[key]

    def run(steps: int) -> None:
        for step in range(steps):
            for blob, array in batches[str(step % len(batches))].items():
                workspace.feed(blob, array)
            workspace.run_net(net)
            workspace.fetch("loss")

    run(WARM)
    before, conversions = resident(), workspace.conversions()
    run(5_000)
    assert resident() <= 1.02 * before
    assert workspace.conversions() == conversions


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the memory in use as Linux shows it")
def test_a_training_net_of_large_blobs_takes_its_memory_once() -> None:
    """Not once more for a plan, and once more for the session of the first run."""
    layers, size = 12, 1 << 21
    names = ["x", *(f"y{i}" for i in range(layers))]
    ops = [
        op
        for before, name in pairwise(names)
        for op in (operator("Mul", [before, f"scale_{name}"], [name], broadcast=1), operator("Tanh", [name], [name]))
    ]
    ops.append(operator("AveragedLoss", [names[-1]], ["loss"]))
    made = add_gradient_operators(NetDef(name="deep", op=ops), ["loss"])
    net, scales = made.net, [f"scale_{name}" for name in names[1:]]
    net.op.extend(operator("WeightedSum", [name, "one", str(made.gradients[name]), "lr"], [name]) for name in scales)
    workspace = Workspace(options=SessionOptions(threads=1))
    workspace.feed("x", np.ones((2, size // 2), np.float32))
    for name, value in {**dict.fromkeys(scales, 1.1), "one": 1.0, "lr": -0.1}.items():
        workspace.feed(name, np.full(1, value, np.float32))
    workspace.create_net(net)
    before = resident()
    for _ in range(4):
        workspace.run_net("deep")
    assert workspace.fetch("loss") is not None
    blobs = (2 * layers + 4) * 4 * size
    assert resident() - before < blobs  # of which it had 0.85, and 1.26 with both
