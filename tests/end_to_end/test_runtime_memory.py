"""A service that runs for long does not grow."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from support.paths import CHAR_RNN

from caffe2_backend import Workspace
from caffe2_backend.runtime import SessionOptions
from caffe2_bridge import load

LONGEST: Final = 40
WARM: Final = 1_000


def resident() -> int:
    """Bytes of this process that are in memory."""
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
