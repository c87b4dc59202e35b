"""``run --device cuda:0`` reports what stays on the host."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.commands import call
from support.nets import net, op

from caffe2_backend import runtime
from caffe2_bridge import Model, save


def test_a_run_reports_what_stays_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "SessionOptions", partial(runtime.SessionOptions, stand_in={"cuda:0": "cpu"}))
    save(Model(net(op("Negative", "x", "a"), op("Unique", "a", "y"))), tmp_path / "model")
    np.savez(tmp_path / "in.npz", x=np.array([3, -1, 3], np.int32))

    result = call(
        "run", tmp_path / "model", "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--device", "cuda:0"
    )

    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "note: 1 of 2 operators run on cuda:0",
        "note: n[1] Unique stays on the host: Unique has no CUDA kernel",
        "note: a is copied to cpu",
    ]
    with np.load(tmp_path / "out.npz") as found:
        assert found["y"].tolist() == [-3, 1]
